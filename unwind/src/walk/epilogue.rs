//! Where the frame pointer of an x86_64 function lies above its stack pointer, read from how the function ends: for a
//! thread of which only the stack pointer is known.
//!
//! ```text
//! push %rbp; mov %rsp, %rbp; push …; sub $n, %rsp      rbp = rsp + n + 8 × pushes, everywhere in between
//! add $n, %rsp; pop …; pop %rbp; ret
//! ```
//!
//! A function whose frame has no fixed size cannot end so: it brings its stack pointer back from rbp (`lea`, `mov` or
//! `leave`). The tables say where the function ends: there the CFA is no longer found by rbp.
//!
//! Source: Intel SDM volume 2.

use crate::images::Range;
use crate::memory::Memory;
use crate::rule::SavedRule;
use freezeframe_arch::Architecture;

/// The longest epilogue: `add $n, %rsp` of seven bytes, `pop` of rbx, r12 to r15 and rbp, and `ret`.
const LONGEST: usize = 7 + 1 + 4 * 2 + 1 + 1;
const POP_RBX: u8 = 0x5b;
const POP_RBP: u8 = 0x5d;
const RET: u8 = 0xc3;

/// How far above the stack pointer the frame pointer lies in a function that has made its frame, by the `rule` that holds
/// at the addresses `row`: it ends behind the `pop` of rbp, or begins behind such an end.
pub(super) fn frame_pointer_above_stack_pointer<M: Memory>(
    memory: &mut M,
    row: Range,
    rule: &SavedRule,
) -> Option<u64> {
    let mut before = |end: u64, last: &[u8]| {
        let mut code = [0; LONGEST];
        let start = end.checked_sub(LONGEST as u64)?;
        (memory.read(start, &mut code) == code.len()).then_some(())?;
        size(code.strip_suffix(last)?, rule)
    };
    before(row.end, &[]).or_else(|| before(row.start, &[RET]))
}

/// What the instructions at the end of `code`, up to the `pop` of rbp, add to the stack pointer before that.
fn size(code: &[u8], rule: &SavedRule) -> Option<u64> {
    let mut rest = code.strip_suffix(&[POP_RBP])?;
    let mut pops = 0u64;
    let saved = |register| rule.saved(Architecture::X86_64, register).is_some();
    for (register, pop) in [(15, 0x5f), (14, 0x5e), (13, 0x5d), (12, 0x5c)] {
        if saved(register) {
            rest = rest.strip_suffix(&[0x41, pop])?;
            pops = pops.checked_add(8)?;
        }
    }
    if saved(3) {
        rest = rest.strip_suffix(&[POP_RBX])?;
        pops = pops.checked_add(8)?;
    }
    added(rest)?.checked_add(pops)
}

/// What the last instruction adds to the stack pointer; none if it may set it.
fn added(code: &[u8]) -> Option<u64> {
    match code {
        // add of four bytes, of one, and sub of a negative one
        [.., 0x48, 0x81, 0xc4, a, b, c, d] => u64::try_from(i32::from_le_bytes([*a, *b, *c, *d])).ok(),
        [.., 0x48, 0x83, 0xc4, n] => u64::try_from(*n as i8).ok(),
        [.., 0x48, 0x83, 0xec, n] => u64::try_from((*n as i8).checked_neg().map_or(128, i16::from)).ok(),
        // mov %rbp, %rsp; lea n(%rbp), %rsp
        [.., 0x48, 0x89, 0xec] | [.., 0x48, 0x8d, 0x65, _] | [.., 0x48, 0x8d, 0xa5, _, _, _, _] => None,
        _ => Some(0),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::memory::SliceMemory;
    use crate::rule::Trust;
    use std::vec::Vec;

    const CODE: u64 = 0x1000;

    /// A function found by rbp that saves these registers below it.
    fn rule(saved: &[u16]) -> SavedRule {
        let mut rule = SavedRule::new(Trust::Cfi, 6, 16);
        rule.save(Architecture::X86_64, 6, 2);
        saved.iter().zip(3..).for_each(|(register, place)| rule.save(Architecture::X86_64, *register, place));
        rule
    }

    /// Code that ends so, after 32 bytes of others.
    fn distance(end: &[u8], saved: &[u16]) -> Option<u64> {
        let code: Vec<u8> = [&[0x90; 32], end].concat();
        let row = Range { start: CODE + 4, end: CODE + code.len() as u64 };
        frame_pointer_above_stack_pointer(&mut SliceMemory::new(CODE, &code), row, &rule(saved))
    }

    #[test]
    fn what_is_added_and_popped_before_rbp_lies_beneath_it() {
        // add $0x20, %rsp; pop %rbx; pop %r12; pop %r14; pop %r15; pop %rbp
        let futex = [0x48, 0x83, 0xc4, 0x20, 0x5b, 0x41, 0x5c, 0x41, 0x5e, 0x41, 0x5f, 0x5d];
        assert_eq!(distance(&futex, &[15, 14, 12, 3]), Some(0x20 + 4 * 8));
        // add $0xc0, %rsp; pop %rbp
        assert_eq!(distance(&[0x48, 0x81, 0xc4, 0xc0, 0, 0, 0, 0x5d], &[]), Some(0xc0));
        // sub $-128, %rsp; pop %rbp
        assert_eq!(distance(&[0x48, 0x83, 0xec, 0x80, 0x5d], &[]), Some(128));
        assert_eq!(distance(&[0x5d], &[]), Some(0), "no room but for rbp");
        assert_eq!(distance(&[0x5b, 0x5d], &[3]), Some(8));
    }

    #[test]
    fn code_behind_an_end_has_the_frame_of_the_code_before_it() {
        let mut code = [0x90; 64];
        code[20..26].copy_from_slice(&[0x48, 0x83, 0xc4, 0x30, 0x5d, 0xc3]);
        let find = |start, end| {
            let row = Range { start: CODE + start, end: CODE + end };
            frame_pointer_above_stack_pointer(&mut SliceMemory::new(CODE, &code), row, &rule(&[]))
        };
        assert_eq!((find(26, 64), find(4, 25)), (Some(0x30), Some(0x30)));
        assert_eq!((find(27, 64), find(4, 24)), (None, None), "no end there");
    }

    #[test]
    fn a_frame_whose_size_is_not_fixed_or_not_told_has_no_answer() {
        // lea -0x10(%rbp), %rsp; lea -0x100(%rbp), %rsp; mov %rbp, %rsp; each with pop %rbp
        assert_eq!(distance(&[0x48, 0x8d, 0x65, 0xf0, 0x5b, 0x5d], &[3]), None);
        assert_eq!(distance(&[0x48, 0x8d, 0xa5, 0, 0xff, 0xff, 0xff, 0x5d], &[]), None);
        assert_eq!(distance(&[0x48, 0x89, 0xec, 0x5d], &[]), None);
        assert_eq!(distance(&[0xc9], &[]), None, "leave");
        assert_eq!(distance(&[0x48, 0x83, 0xc4, 0x20, 0x5d], &[3]), None, "rbx is saved, and not popped");
        assert_eq!(distance(&[0x48, 0x83, 0xc4, 0xe0, 0x5d], &[]), None, "it would lie beneath");
        assert_eq!(distance(&[0x0f, 0x0b], &[]), None, "it never returns");
    }
}
