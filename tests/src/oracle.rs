//! gimli's rows beside ours.

use crate::elf::CfiFile;
use freezeframe_arch::{Architecture, Registers, RegistersArm64, RegistersX86_64};
use freezeframe_unwind::rule::{CfaRule, Expression, KnownRegisters, RegisterRule, ReturnAddressSign, Row};
use freezeframe_unwind::tables::cfi::{RowContext, TableError, Tables};
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

#[derive(Debug)]
enum Ours {
    /// Boxed, for it outlives the context.
    Row(Box<Row>),
    Error(TableError),
}

impl Ours {
    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Row(one), Self::Row(other)) => {
                let whole = |row: &Row| {
                    (row.range(), row.cfa(), row.return_column(), row.sign(), row.is_signal_frame())
                };
                whole(one) == whole(other) && one.rules().eq(other.rules())
            }
            (Self::Error(one), Self::Error(other)) => one == other,
            _ => false,
        }
    }
}

fn ours(file: &CfiFile, tables: &Tables, lends: bool, pc: u64) -> Ours {
    let mut context = RowContext::new();
    match tables.row(&mut file.memory(lends), file.architecture, pc, &mut context) {
        Ok(row) => Ours::Row(Box::new(row.clone())),
        Err(error) => Ours::Error(error),
    }
}

/// Compares our row for `pc` in a damaged file with gimli's, if both have one; returns how often both had. The difference
/// is the error.
///
/// What may differ, and why:
/// * One has a row and the other an error. We stop at the row that was asked for, and pass over unknown augmentations
///   that have a length and FDEs of a damaged CIE; gimli knows no `DW_EH_PE_aligned`, accepts overlong numbers, and
///   accepts rows in CIEs. So only pairs of rows are compared.
/// * The CFA, where no instruction defined it: "unspecified" with us, register 0 plus 0 with gimli.
/// * FDEs that overlap, or an index out of order: which FDE is found depends on the search. So gimli is asked for the
///   FDE by the same kind of search, and in the index only if the damaged one is still in order.
/// * An index whose pointer to `.eh_frame` is damaged: gimli counts FDEs from there, we go to their addresses.
pub fn compare(file: &CfiFile, pc: u64) -> Result<usize, String> {
    let header = file.tables();
    let linear = Tables { eh_frame_hdr: None, ..header };
    let (section, bases) = (section(file), bases(file));
    let mut context = gimli::UnwindContext::new();
    let mut compared = 0;
    for (way, tables) in [("header", header), ("linear", linear)] {
        let lent = ours(file, &tables, true, pc);
        let copied = ours(file, &tables, false, pc);
        if !lent.same(&copied) {
            // Memory that is copied is read a window at a time: a field may be cut short there instead.
            let short =
                |ours: &Ours| matches!(ours, Ours::Error(TableError::CutShort | TableError::Unreadable(_)));
            if !short(&copied) {
                return Err(format!("{way}: {lent:?} lent, {copied:?} copied"));
            }
        }
        let Ours::Row(row) = lent else { continue };
        if !row.range().contains(pc) {
            return Err(format!("{way}: a row for {:x?}, which has no {pc:#x}", row.range()));
        }
        let registers = registers(file);
        let _ = row.apply(&mut file.memory(true), &mut file.memory(true), &registers, KnownRegisters::ALL);
        let get_cie = gimli::EhFrame::cie_from_offset;
        let theirs = match way {
            "linear" => section.unwind_info_for_address(&bases, &mut context, pc, get_cie).ok().cloned(),
            _ if index_is_sound(file) => {
                let header = file.eh_frame_hdr.as_ref().expect("it is sound");
                let index = gimli::EhFrameHdr::new(&header.bytes, LittleEndian).parse(&bases, 8);
                let table = index.as_ref().ok().and_then(|index| index.table());
                table.and_then(|table| {
                    table.unwind_info_for_address(&section, &bases, &mut context, pc, get_cie).ok().cloned()
                })
            }
            _ => None,
        };
        let Some(theirs) = theirs else { continue };
        if row.cfa() != CfaRule::Unspecified {
            compared += 1;
            same_rules(file, &section, &row, &theirs).map_err(|e| format!("{way} {pc:#x}: {e}"))?;
        }
    }
    Ok(compared)
}

fn index_is_sound(file: &CfiFile) -> bool {
    let Some(header) = &file.eh_frame_hdr else { return false };
    let mut start = vec![1, 0x1b, 0x03, 0x3b];
    start.extend((file.eh_frame.address.wrapping_sub(header.address + 4) as i32).to_le_bytes());
    let table = header.bytes.get(12..).unwrap_or(&[]);
    // As addresses: one that wraps around is the last to gimli, and the first to us.
    let keys = table
        .chunks_exact(8)
        .map(|e| header.address.wrapping_add_signed(i32::from_le_bytes([e[0], e[1], e[2], e[3]]).into()));
    // gimli counts places from the section's start on.
    let mut places = table
        .chunks_exact(8)
        .map(|e| header.address.wrapping_add_signed(i32::from_le_bytes([e[4], e[5], e[6], e[7]]).into()));
    header.bytes.starts_with(&start)
        && keys.is_sorted_by(|a, b| a < b)
        && places.all(|place| place >= file.eh_frame.address)
}

fn registers(file: &CfiFile) -> Registers {
    // Into the middle of the tables: memory like any other.
    let middle = file.eh_frame.address + file.eh_frame.bytes.len() as u64 / 2;
    match file.architecture {
        Architecture::X86_64 => Registers::X86_64(RegistersX86_64::from_words([middle; 18])),
        Architecture::Arm64 => {
            Registers::Arm64(RegistersArm64 { x: [middle; 31], sp: middle, pc: middle, pstate: 0 })
        }
    }
}
