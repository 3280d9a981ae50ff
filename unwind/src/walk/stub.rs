//! Stubs that jump on through a table of addresses, told by their instructions: lld and the static links of GNU ld
//! write no unwind tables for the procedure linkage table.
//!
//! Source: System V ABI for AMD64, section 5.2; with `endbr64` and `bnd` as linkers write them for processors that check
//! branches.

use crate::memory::Memory;
use freezeframe_arch::Architecture;

/// `endbr64`
const ENDBR: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
const BND: u8 = 0xf2;
/// How many bytes are read from the address on, and before it.
const AHEAD: usize = 16;
const BEFORE: u64 = 6;

/// How many bytes the stub at `pc` has pushed since it was called; none if that is no stub.
///
/// ```text
/// entry: jmp *slot(%rip)      ff 25 .. .. .. ..     0
///        push $n              68 .. .. .. ..        0
///        jmp first            e9 .. .. .. ..        8
/// first: push map(%rip)       ff 35 .. .. .. ..     8
///        jmp *resolver(%rip)  ff 25 .. .. .. ..     16
/// ```
pub(super) fn pushed_by_stub<M: Memory>(memory: &mut M, architecture: Architecture, pc: u64) -> Option<u16> {
    if architecture != Architecture::X86_64 {
        return None;
    }
    let mut ahead = [0; AHEAD];
    let read = memory.read(pc, &mut ahead);
    let code = ahead.get(..read)?;
    let code = without_bnd(code.strip_prefix(&ENDBR).unwrap_or(code));
    let mut before = [0; BEFORE as usize];
    let start = pc.checked_sub(BEFORE)?;
    let before = if memory.read(start, &mut before) == before.len() { before } else { [0; BEFORE as usize] };
    match (code, before) {
        ([0xff, 0x25, ..], [0xff, 0x35, ..]) => Some(16),
        ([0xff, 0x25, ..], _) => Some(0),
        ([0xff, 0x35, _, _, _, _, rest @ ..], _) if without_bnd(rest).starts_with(&[0xff, 0x25]) => Some(8),
        ([0x68, _, _, _, _, rest @ ..], _) if without_bnd(rest).starts_with(&[0xe9]) => Some(0),
        ([0xe9, ..], [_, 0x68, ..]) => Some(8),
        _ => None,
    }
}

fn without_bnd(code: &[u8]) -> &[u8] {
    code.strip_prefix(&[BND]).unwrap_or(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::SliceMemory;

    fn pushed(code: &[u8], at: u64) -> Option<u16> {
        pushed_by_stub(&mut SliceMemory::new(0x1000, code), Architecture::X86_64, 0x1000 + at)
    }

    #[test]
    fn each_instruction_of_a_linkage_table_has_its_depth() {
        let first = [0xff, 0x35, 1, 2, 3, 4, 0xff, 0x25, 5, 6, 7, 8, 0x0f, 0x1f, 0x40, 0];
        assert_eq!((pushed(&first, 0), pushed(&first, 6), pushed(&first, 12)), (Some(8), Some(16), None));
        let entry = [0xff, 0x25, 1, 2, 3, 4, 0x68, 5, 0, 0, 0, 0xe9, 1, 2, 3, 4];
        assert_eq!((pushed(&entry, 0), pushed(&entry, 6), pushed(&entry, 11)), (Some(0), Some(0), Some(8)));
        assert_eq!(pushed(&entry, 1), None, "inside an instruction");
    }

    #[test]
    fn tables_for_checked_branches_have_the_same_depths() {
        let entry = [0xf3, 0x0f, 0x1e, 0xfa, 0x68, 5, 0, 0, 0, 0xf2, 0xe9, 1, 2, 3, 4, 0x90];
        assert_eq!((pushed(&entry, 0), pushed(&entry, 4), pushed(&entry, 9)), (Some(0), Some(0), Some(8)));
        let second = [0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 1, 2, 3, 4, 0x0f, 0x1f, 0x44, 0, 0];
        assert_eq!((pushed(&second, 0), pushed(&second, 4)), (Some(0), Some(0)));
    }

    #[test]
    fn other_code_other_architectures_and_nothing_are_no_stubs() {
        assert_eq!(pushed(&[0x68, 5, 0, 0, 0, 0x90], 0), None, "a push alone");
        assert_eq!(pushed(&[0xe9, 1, 2, 3, 4], 0), None, "a jump alone");
        assert_eq!((pushed(&[], 0), pushed(&[0xff], 0)), (None, None));
        let mut memory = SliceMemory::new(0x1000, &[0xff, 0x25, 0, 0, 0, 0]);
        assert_eq!(pushed_by_stub(&mut memory, Architecture::Arm64, 0x1000), None);
    }
}
