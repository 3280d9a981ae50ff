//! x86_64 code without tables, read from the instruction on to the return: what is popped until then lies beneath the
//! return address. glibc's `clone` and `clone3` have no tables from their system call on; nor have the functions that
//! linkers and compilers add to every program.
//!
//! Only instructions whose effect on the stack pointer is certain are followed, and conditions are taken not to hold. Any
//! other ends it, without an answer.
//!
//! Source: Intel SDM volume 2, chapter 2.1 and appendix A.

use crate::memory::Memory;
use crate::rule::SavedRule;

/// How many instructions are followed: the functions above have fewer.
const INSTRUCTIONS: usize = 48;
/// The longest instruction.
const LONGEST: usize = 15;
const RSP: u8 = 4;

/// What an instruction does.
enum Step {
    /// Nothing to the stack pointer; its length.
    Plain(u64),
    /// Raises the stack pointer by so many bytes; its length.
    Raises(i64, u64),
    /// Pops a register, by DWARF number; its length.
    Pops(u16, u64),
    /// Goes on so many bytes from here.
    Jumps(i64),
    /// Returns, or jumps to a function that will.
    Leaves,
}

/// The rule for a thread that stands at `pc`.
///
/// A register that is popped was saved where it is popped from. If it was pushed on the way, too, it has not changed yet.
pub(super) fn rule_to_return<M: Memory>(memory: &mut M, pc: u64) -> Option<SavedRule> {
    let distance = follow(memory, pc, |_, _| {})?;
    let mut rule = SavedRule::above_stack_pointer(u16::try_from(distance).ok()?);
    follow(memory, pc, |register, at| {
        if at >= 0 {
            rule.save_above_stack_pointer(register, at as u16);
        }
    });
    Some(rule)
}

/// How far above the stack pointer the return address lies. Calls `popped` with each register that is popped, and from how
/// far above the stack pointer.
fn follow<M: Memory>(memory: &mut M, mut pc: u64, mut popped: impl FnMut(u16, i64)) -> Option<i64> {
    let mut distance = 0i64;
    for _ in 0..INSTRUCTIONS {
        let mut code = [0; LONGEST];
        let read = memory.read(pc, &mut code);
        let (raised, length) = match decode(code.get(..read)?)? {
            Step::Leaves => return (distance >= 0).then_some(distance),
            Step::Raises(bytes, length) => (bytes, length),
            Step::Pops(register, length) => {
                popped(register, distance);
                (8, length)
            }
            Step::Plain(length) => (0, length),
            Step::Jumps(bytes) => {
                pc = pc.checked_add_signed(bytes)?;
                continue;
            }
        };
        distance = distance.checked_add(raised)?;
        pc = pc.checked_add(length)?;
    }
    None
}

/// Whether the code before `pc` is a call.
pub(super) fn follows_call<M: Memory>(memory: &mut M, pc: u64) -> bool {
    let mut before = [0; 7];
    let Some(start) = pc.checked_sub(before.len() as u64) else { return false };
    if memory.read(start, &mut before) != before.len() {
        return false;
    }
    // A direct call has five bytes; an indirect one, with its ModR/M byte second, between two and seven.
    let indirect = before.windows(2).take(6).any(|pair| matches!(pair, [0xff, modrm] if modrm >> 3 & 7 == 2));
    before.get(2) == Some(&0xe8) || indirect
}

fn decode(code: &[u8]) -> Option<Step> {
    Some(match code {
        // ret, also with a prefix; jmp to a register's address
        [0xc3, ..] | [0xf3, 0xc3, ..] | [0xff, 0xe0..=0xe7, ..] => Step::Leaves,
        // endbr64; syscall; nop
        [0xf3, 0x0f, 0x1e, 0xfa, ..] => Step::Plain(4),
        [0x0f, 0x05, ..] | [0x66, 0x90, ..] => Step::Plain(2),
        [0x90, ..] => Step::Plain(1),
        // jmp
        [0xeb, near, ..] => Step::Jumps(i64::from(*near as i8).checked_add(2)?),
        [0xe9, a, b, c, d, ..] => {
            Step::Jumps(i64::from(i32::from_le_bytes([*a, *b, *c, *d])).checked_add(5)?)
        }
        // jcc, near and far
        [0x70..=0x7f, _, ..] => Step::Plain(2),
        [0x0f, 0x80..=0x8f, ..] => Step::Plain(6),
        // call
        [0xe8, ..] => Step::Plain(5),
        [0xff, 0xd0..=0xd7, ..] => Step::Plain(2),
        // push, pop; not of rsp
        [0x50..=0x53 | 0x55..=0x57, ..] => Step::Raises(-8, 1),
        [0x5b, ..] => Step::Pops(3, 1),
        [0x5d, ..] => Step::Pops(6, 1),
        [0x58..=0x5a | 0x5e..=0x5f, ..] => Step::Raises(8, 1),
        [0x41, 0x50..=0x57, ..] => Step::Raises(-8, 2),
        [0x41, pop @ 0x58..=0x5f, ..] => Step::Pops(u16::from(pop & 7).saturating_add(8), 2),
        // add and sub of a byte and rsp; of others, and the other operations of that group
        [0x48, 0x83, 0xc4, bytes, ..] => Step::Raises((*bytes as i8).into(), 4),
        [0x48, 0x83, 0xec, bytes, ..] => Step::Raises(i64::from(*bytes as i8).checked_neg()?, 4),
        [0x48, 0x83, modrm, _, ..] if is_other_register(*modrm) => Step::Plain(4),
        [0x48, 0x3d, ..] => Step::Plain(6),
        // add, sub, xor, cmp, test, mov between registers
        [0x48, 0x01 | 0x29 | 0x31 | 0x39 | 0x85 | 0x89, modrm, ..] if is_other_register(*modrm) => {
            Step::Plain(3)
        }
        // mov and cmp of a constant
        [0xb8..=0xbb | 0xbd..=0xbf, ..] => Step::Plain(5),
        [0x48, 0xc7 | 0x81, modrm, ..] if is_other_register(*modrm) => Step::Plain(7),
        // shifts
        [0x48, 0xc1, modrm, _, ..] if is_other_register(*modrm) => Step::Plain(4),
        [0x48, 0xd1, modrm, ..] if is_other_register(*modrm) => Step::Plain(3),
        // mov and lea from memory near by
        [0x48, 0x8b | 0x8d, modrm, ..] if modrm & 0xc7 == 5 && modrm >> 3 & 7 != RSP => Step::Plain(7),
        // cmp and mov of a byte and memory near by
        [0x80, 0x3d, ..] | [0xc6, 0x05, ..] => Step::Plain(7),
        [0x48, 0x83, 0x3d, ..] => Step::Plain(8),
        _ => return None,
    })
}

/// Whether a ModR/M byte names a register as destination, and not rsp.
const fn is_other_register(modrm: u8) -> bool {
    modrm >= 0xc0 && modrm & 7 != RSP
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::SliceMemory;

    fn rule(code: &[u8], at: u64) -> Option<SavedRule> {
        rule_to_return(&mut SliceMemory::new(0x1000, code), 0x1000 + at)
    }

    fn distance(code: &[u8], at: u64) -> Option<i32> {
        rule(code, at).map(|rule| rule.cfa_offset - 8)
    }

    // glibc 2.36, clone3, from its system call on.
    const CLONE3: [u8; 13] = [
        0x0f, 0x05, // syscall
        0x48, 0x85, 0xc0, // test %rax, %rax
        0x0f, 0x8c, 0xac, 0xbd, 0xf0, 0xff, // jl error
        0x74, 0x01, // je thread_start
    ];

    #[test]
    fn a_thread_in_or_behind_the_system_call_of_clone_returns_by_its_top_word() {
        let mut code = [0xc3; CLONE3.len() + 1];
        code[..CLONE3.len()].copy_from_slice(&CLONE3);
        for at in [0, 2, 5, 11, 13] {
            assert_eq!(distance(&code, at), Some(0), "at {at}");
        }
    }

    #[test]
    fn what_is_popped_on_the_way_lies_beneath_the_return_address() {
        // _init of crti.o: sub $8, %rsp; mov start(%rip), %rax; test %rax, %rax; je; call *%rax; add $8, %rsp; ret
        let init = [
            0x48, 0x83, 0xec, 0x08, 0x48, 0x8b, 0x05, 0xc5, 0x2f, 0, 0, 0x48, 0x85, 0xc0, 0x74, 0x02, 0xff,
            0xd0, 0x48, 0x83, 0xc4, 0x08, 0xc3,
        ];
        let at = |at| distance(&init, at);
        assert_eq!([at(0), at(4), at(16), at(18), at(22)], [Some(0), Some(8), Some(8), Some(8), Some(0)]);
        // push %rbp; mov %rsp, %rbp; pop %rbp; ret
        let framed = [0x55, 0x48, 0x89, 0xe5, 0x5d, 0xc3];
        assert_eq!(
            (distance(&framed, 0), distance(&framed, 1), distance(&framed, 4)),
            (Some(0), Some(8), Some(8))
        );
        let mut saved = SavedRule::above_stack_pointer(8);
        saved.save_above_stack_pointer(6, 0);
        assert_eq!(
            (rule(&framed, 1), rule(&framed, 4)),
            (Some(saved), Some(saved)),
            "rbp is in the top word"
        );
        assert_eq!(rule(&framed, 0), Some(SavedRule::above_stack_pointer(0)), "rbp is not yet pushed");
        // push %rbp; jmp over the next byte; pop %rbp; ret
        assert_eq!(distance(&[0x55, 0xe9, 1, 0, 0, 0, 0xcc, 0x5d, 0xc3], 1), Some(8));
        // push %r12; pop %r12; jmp *%rax
        assert_eq!(distance(&[0x41, 0x54, 0x41, 0x5c, 0xff, 0xe0], 2), Some(8));
    }

    #[test]
    fn what_is_not_certain_has_no_answer() {
        assert_eq!(distance(&[0x48, 0x89, 0xec, 0xc3], 0), None, "mov %rbp, %rsp");
        assert_eq!(distance(&[0xc9, 0xc3], 0), None, "leave");
        assert_eq!(distance(&[0x5c, 0xc3], 0), None, "pop %rsp");
        assert_eq!(distance(&[0x48, 0x83, 0xe4, 0xf0, 0xc3], 0), None, "and $-16, %rsp");
        assert_eq!(
            distance(&[0x55, 0xc3], 0),
            None,
            "the return address would lie beneath the stack pointer"
        );
        assert_eq!(distance(&[0x48, 0x85], 0), None, "cut short");
        assert_eq!(distance(&[0xeb, 0xfe], 0), None, "an endless loop");
        assert_eq!(distance(&[], 0), None);
        assert_eq!(distance(&[0x90; 4096], 0), None, "no return near by");
    }

    #[test]
    fn calls_are_told_by_the_bytes_before_a_return_address() {
        let follows =
            |code: &[u8]| follows_call(&mut SliceMemory::new(0x1000, code), 0x1000 + code.len() as u64);
        assert!(follows(&[0x90, 0x90, 0xe8, 1, 2, 3, 4]));
        assert!(follows(&[0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xd0]), "call *%rax");
        assert!(follows(&[0x90, 0xff, 0x15, 1, 2, 3, 4]), "call *slot(%rip)");
        assert!(follows(&[0xff, 0x94, 0x24, 1, 2, 3, 4]), "call *n(%rsp)");
        assert!(!follows(&[0x90; 7]) && !follows(&[0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xe0]));
        assert!(!follows(&[0xff, 0xd0]), "what cannot be read whole");
    }
}
