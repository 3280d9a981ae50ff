//! gimli's rows beside ours.

use crate::elf::CfiFile;
use freezeframe_arch::Architecture;
use freezeframe_unwind::rule::{CfaRule, Expression, RegisterRule, ReturnAddressSign, Row};
use gimli::{BaseAddresses, EhFrame, EndianSlice, LittleEndian, UnwindSection, Vendor};

/// gimli's reader of bytes.
pub type Bytes<'a> = EndianSlice<'a, LittleEndian>;
/// gimli's row.
pub type GimliRow = gimli::UnwindTableRow<usize>;

/// A file's `.eh_frame` for gimli.
pub fn section(file: &CfiFile) -> EhFrame<Bytes<'_>> {
    let mut section = EhFrame::new(&file.eh_frame.bytes, LittleEndian);
    section.set_address_size(8);
    if file.architecture == Architecture::Arm64 {
        section.set_vendor(Vendor::AArch64);
    }
    section
}

/// What pointers are relative to.
pub fn bases(file: &CfiFile) -> BaseAddresses {
    let bases = BaseAddresses::default().set_eh_frame(file.eh_frame.address);
    match &file.eh_frame_hdr {
        // Ours are relative to the header in both sections.
        Some(header) => bases.set_eh_frame_hdr(header.address).set_got(header.address),
        None => bases,
    }
}

/// How many DWARF registers our rows keep rules for.
pub fn tracked(architecture: Architecture) -> u16 {
    match architecture {
        Architecture::X86_64 => 17,
        Architecture::Arm64 => 33,
    }
}

/// Compares the rules of two rows; the first difference is the error. Both refer to expressions by their place in the
/// section, so that equal places are equal bytes.
pub fn same_rules(
    file: &CfiFile,
    section: &EhFrame<Bytes<'_>>,
    ours: &Row,
    theirs: &GimliRow,
) -> Result<(), String> {
    let expression = |ours: Expression, theirs: &gimli::UnwindExpression<usize>| {
        let bytes = theirs.get(section).map(|e| e.0.slice().as_ptr() as u64);
        let place = ours.address.wrapping_sub(file.eh_frame.address);
        let base = file.eh_frame.bytes.as_ptr() as u64;
        place == theirs.offset as u64
            && ours.length as usize == theirs.length
            && bytes == Ok(base.wrapping_add(place))
    };
    let same_cfa = match (ours.cfa(), theirs.cfa()) {
        (
            CfaRule::RegisterOffset { register, offset },
            gimli::CfaRule::RegisterAndOffset { register: r, offset: o },
        ) => (register, offset) == (r.0, *o),
        (CfaRule::Expression(ours), gimli::CfaRule::Expression(theirs)) => expression(ours, theirs),
        _ => false,
    };
    if !same_cfa {
        return Err(format!("cfa: {:?}, not {:?}", ours.cfa(), theirs.cfa()));
    }
    for number in 0..tracked(file.architecture) {
        let (ours, theirs) = (ours.rule(number), theirs.register(gimli::Register(number)));
        let same = match (ours, &theirs) {
            (RegisterRule::Unspecified, None) => true,
            (RegisterRule::Undefined, Some(gimli::RegisterRule::Undefined)) => true,
            (RegisterRule::SameValue, Some(gimli::RegisterRule::SameValue)) => true,
            (RegisterRule::Offset(ours), Some(gimli::RegisterRule::Offset(theirs))) => ours == *theirs,
            (RegisterRule::ValOffset(ours), Some(gimli::RegisterRule::ValOffset(theirs))) => ours == *theirs,
            (RegisterRule::Register(ours), Some(gimli::RegisterRule::Register(theirs))) => ours == theirs.0,
            (RegisterRule::Expression(ours), Some(gimli::RegisterRule::Expression(theirs))) => {
                expression(ours, theirs)
            }
            (RegisterRule::ValExpression(ours), Some(gimli::RegisterRule::ValExpression(theirs))) => {
                expression(ours, theirs)
            }
            _ => false,
        };
        if !same {
            return Err(format!("register {number}: {ours:?}, not {theirs:?}"));
        }
    }
    let sign = match theirs.register(gimli::AArch64::RA_SIGN_STATE) {
        Some(gimli::RegisterRule::Constant(1)) => ReturnAddressSign::Signed,
        _ => ReturnAddressSign::Plain,
    };
    if ours.sign() != sign {
        return Err(format!("sign: {:?}, not {sign:?}", ours.sign()));
    }
    Ok(())
}

/// Calls `visit` with every row of every FDE of `.eh_frame`, and returns how many FDEs there are.
pub fn each_row(
    file: &CfiFile,
    mut visit: impl FnMut(&EhFrame<Bytes<'_>>, &gimli::FrameDescriptionEntry<Bytes<'_>>, &GimliRow),
) -> gimli::Result<usize> {
    let (section, bases) = (section(file), bases(file));
    let mut context = gimli::UnwindContext::new();
    let mut entries = section.entries(&bases);
    let mut fdes = 0;
    while let Some(entry) = entries.next()? {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(|section, bases, offset| section.cie_from_offset(bases, offset))?;
        fdes += 1;
        let mut rows = fde.rows(&section, &bases, &mut context)?;
        while let Some(row) = rows.next_row()? {
            visit(&section, &fde, row);
        }
    }
    Ok(fdes)
}
