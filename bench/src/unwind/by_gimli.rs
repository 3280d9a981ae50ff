//! gimli, by hand: each frame's row is looked up and executed anew, from what was parsed ahead of all walks.

use super::mapped::{Bytes, Sections};
use super::{Start, row};
use crate::table::Table;
use freezeframe_arch::{Architecture, Registers};
use freezeframe_unwind::init::pac_mask;
use freezeframe_unwind::memory::{Memory, SliceMemory};
use gimli::{CfaRule, EhFrame, RegisterRule, UnwindContext, UnwindSection};

/// The DWARF numbers of the stack pointer and of the return address.
const ROLES: (usize, usize) = match Architecture::NATIVE {
    Architecture::X86_64 => (7, 16),
    Architecture::Arm64 => (31, 30),
};

pub(super) fn walk(table: &mut Table, start: &Start<'_>, mut stack: SliceMemory<'_>) -> Result<f64, String> {
    let images = start.mapped.sections(start.images);
    let mut context = UnwindContext::new();
    row(table, "gimli, no rules kept", |pcs| {
        let (mut words, mut filled) = ([0; Registers::MAX_WORDS], 0);
        start.registers.copy_words(&mut words);
        let mut pc = start.registers.pc();
        for slot in pcs {
            *slot = pc;
            // All but the first are behind a call.
            let lookup = pac_mask().strip(pc).wrapping_sub(u64::from(filled > 0));
            filled += 1;
            match step(&images, &mut context, lookup, &mut words, &mut stack) {
                Some(caller) => pc = caller,
                None => break,
            }
        }
        filled
    })
}

/// From a frame's registers to its caller's, and its return address.
fn step(
    images: &[Sections],
    context: &mut UnwindContext<usize>,
    lookup: u64,
    words: &mut [u64; Registers::MAX_WORDS],
    stack: &mut SliceMemory<'_>,
) -> Option<u64> {
    let index = images.partition_point(|image| image.image.start <= lookup).checked_sub(1)?;
    let image = images.get(index).filter(|image| image.image.contains(lookup))?;
    let eh_frame = EhFrame::<Bytes>::from(image.eh_frame);
    let header = image.parsed.table()?;
    let cie = EhFrame::cie_from_offset;
    let row = header.unwind_info_for_address(&eh_frame, &image.bases, context, lookup, cie).ok()?;
    let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
    let cfa = words.get(usize::from(register.0))?.wrapping_add_signed(*offset);
    let (sp, return_address) = ROLES;
    for (register, rule) in row.registers() {
        let word = words.get_mut(usize::from(register.0))?;
        match rule {
            RegisterRule::Offset(offset) => *word = stack.read_u64(cfa.wrapping_add_signed(*offset))?,
            RegisterRule::SameValue => {}
            _ => return None,
        }
    }
    words[sp] = cfa;
    Some(words[return_address])
}
