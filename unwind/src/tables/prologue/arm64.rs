//! arm64's instructions, and its frameless prologues.
//!
//! The architecture has 31 general registers and encodes them all alike: an instruction that is not known cannot change
//! the stack pointer unless one of the patterns below says so. x29 and x30 are given up on wherever they are written in
//! a way that compilers do not use for frames.

use super::Position;
use super::ahead::{Ahead, Lowering};
use super::step::{Access, Base, Step};
use crate::memory::Memory;
use crate::rule::{SavedRule, Trust, followed};
use freezeframe_arch::Architecture;

/// Of an instruction, in bytes.
pub(super) const SIZE: usize = 4;

const FP: u16 = 29;
const LR: u16 = 30;
const SP: u16 = 31;

/// What the instruction at address `at` does, and its size.
pub(super) fn decode(bytes: &[u8], at: u64) -> (Step, u64) {
    let Some(word) = bytes.first_chunk::<SIZE>() else { return (Step::Unknown, 0) };
    (step(Word(u32::from_le_bytes(*word)), at), SIZE as u64)
}

#[derive(Clone, Copy)]
struct Word(u32);

impl Word {
    const fn is(self, mask: u32, pattern: u32) -> bool {
        self.0 & mask == pattern
    }

    const fn bits(self, first: u32, count: u32) -> u32 {
        let mask = 1u32.wrapping_shl(count).wrapping_sub(1);
        self.0.wrapping_shr(first) & mask
    }

    const fn register(self, first: u32) -> u16 {
        self.bits(first, 5) as u16
    }

    /// `count` bits from bit `first` on, with a sign.
    const fn signed(self, first: u32, count: u32) -> i64 {
        let unused = 32u32.wrapping_sub(count);
        (self.bits(first, count).wrapping_shl(unused) as i32).wrapping_shr(unused) as i64
    }

    /// Where a branch goes whose distance, in instructions, has `count` bits.
    const fn target(self, at: u64, first: u32, count: u32) -> u64 {
        at.wrapping_add_signed(self.signed(first, count).wrapping_mul(4))
    }
}

/// By the groups of C4.1: bits 25 to 28.
fn step(word: Word, at: u64) -> Step {
    match word.bits(25, 4) {
        0b1000 | 0b1001 => immediate(word),
        0b1010 | 0b1011 => branch(word, at),
        0b0100 | 0b0110 | 0b1100 | 0b1110 => load_or_store(word),
        0b0101 | 0b1101 => {
            // `add sp, sp, x8` and its like, with an extended register.
            let to_sp = word.is(0x1f20_0000, 0x0b20_0000) && word.bits(29, 1) == 0 && word.register(0) == SP;
            if to_sp { Step::Unknown } else { writes(word.register(0)) }
        }
        // Vectors and scalable vectors' neighbours: the integer registers that some write are temporary ones.
        0b0111 | 0b1111 => writes(word.register(0)),
        _ => Step::Unknown,
    }
}

/// An instruction that writes a register, number 31 not being the stack pointer.
const fn writes(register: u16) -> Step {
    if register == FP || register == LR { Step::Unknown } else { Step::Plain }
}

fn immediate(word: Word) -> Step {
    let (to, from) = (word.register(0), word.register(5));
    if word.is(0x1f80_0000, 0x1100_0000) {
        let number = i64::from(word.bits(10, 12)) << (word.bits(22, 1).wrapping_mul(12));
        let number = if word.bits(30, 1) == 0 { number } else { number.wrapping_neg() };
        let sets_flags = word.bits(29, 1) != 0;
        return match (to, from) {
            (SP, _) if sets_flags => Step::Plain,
            (FP | LR | SP, _) if word.bits(31, 1) == 0 || sets_flags => Step::Unknown,
            (SP, SP) => Step::Stack(number),
            (FP, SP) => Step::FrameFromStack(number),
            (SP, FP) => Step::StackFromFrame(number),
            (SP, _) => Step::Unknown,
            _ => writes(to),
        };
    }
    // Tagged addresses; logical operations can write the stack pointer, but for `ands`.
    let tags = word.is(0x1f80_0000, 0x1180_0000);
    let logical = word.is(0x1f80_0000, 0x1200_0000) && word.bits(29, 2) != 3;
    if to == SP && (tags || logical) { Step::Unknown } else { writes(to) }
}

fn branch(word: Word, at: u64) -> Step {
    const RETURN: u32 = 0xd65f_03c0;
    const RETURN_WITH_KEY_A: u32 = 0xd65f_0bff;
    const RETURN_WITH_KEY_B: u32 = 0xd65f_0fff;
    match word.0 {
        RETURN | RETURN_WITH_KEY_A | RETURN_WITH_KEY_B => Step::Return,
        _ if word.is(0xfc00_0000, 0x1400_0000) => Step::Jump(Some(word.target(at, 0, 26))),
        // b.cond, bc.cond, cbz and cbnz.
        _ if word.is(0xff00_0000, 0x5400_0000) || word.is(0x7e00_0000, 0x3400_0000) => {
            Step::Branch(word.target(at, 5, 19))
        }
        // tbz and tbnz.
        _ if word.is(0x7e00_0000, 0x3600_0000) => Step::Branch(word.target(at, 5, 14)),
        // br, and those that check a signature first.
        _ if word.is(0xfeff_f000, 0xd61f_0000) => Step::Jump(None),
        // brk.
        _ if word.is(0xffe0_001f, 0xd420_0000) => Step::Trap,
        // svc: the kernel gives the registers back.
        _ if word.is(0xffe0_001f, 0xd400_0001) => Step::Plain,
        // Hints: nop, and what signs and checks the link register. Barriers. System registers.
        _ if word.is(0xffff_f01f, 0xd503_201f) || word.is(0xffff_f01f, 0xd503_301f) => Step::Plain,
        _ if word.is(0xfff0_0000, 0xd530_0000) => writes(word.register(0)),
        _ if word.is(0xfff0_0000, 0xd510_0000) => Step::Plain,
        _ => Step::Unknown,
    }
}

/// How the address of an access is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Index {
    Offset,
    /// The sum is written back before the access, or after.
    Before,
    After,
}

fn load_or_store(word: Word) -> Step {
    let vector = word.bits(26, 1) != 0;
    let (first, base) = (word.register(0), word.register(5));
    // Pairs: size, vector, index, load, number, second, base, first.
    if word.is(0x3a00_0000, 0x2800_0000) {
        let size = match (vector, word.bits(30, 2)) {
            (true, size) => 4i64 << size.min(2),
            (false, 2) => 8,
            (false, _) => 4,
        };
        let index = match word.bits(23, 2) {
            1 => Index::After,
            3 => Index::Before,
            _ => Index::Offset,
        };
        let whole = !vector && word.bits(30, 2) == 2;
        let registers = [first, word.register(10)];
        let load = word.bits(22, 1) != 0;
        return access(
            registers.map(|r| (!vector).then_some(r)),
            whole,
            load,
            base,
            index,
            word.signed(15, 7).wrapping_mul(size),
        );
    }
    // One register: size, vector, operation.
    let (size, operation) = (word.bits(30, 2), word.bits(22, 2));
    let whole = !vector && size == 3;
    if whole && operation >= 2 {
        // A prefetch: the register is a number.
        return Step::Plain;
    }
    let load = operation != 0;
    let register = [(!vector).then_some(first), None];
    if word.is(0x3b00_0000, 0x3900_0000) {
        let scale = if vector && operation >= 2 { 4 } else { size };
        return access(register, whole, load, base, Index::Offset, i64::from(word.bits(10, 12)) << scale);
    }
    if word.is(0x3b20_0000, 0x3800_0000) {
        let index = match word.bits(10, 2) {
            1 => Index::After,
            3 => Index::Before,
            _ => Index::Offset,
        };
        return access(register, whole, load, base, index, word.signed(12, 9));
    }
    // By a register's sum, and from a place in the code.
    if word.is(0x3b20_0c00, 0x3820_0800) || word.is(0x3b00_0000, 0x1800_0000) {
        return if load || word.is(0x3b00_0000, 0x1800_0000) { loads(register) } else { Step::Plain };
    }
    // Atomic operations, exclusive and ordered accesses: none writes its base; structures of vectors, if they do not.
    if word.is(0x3b20_0c00, 0x3820_0000) || word.is(0x3f00_0000, 0x0800_0000) {
        let status = word.register(16);
        return match (writes(first), writes(status)) {
            (Step::Plain, Step::Plain) => Step::Plain,
            _ => Step::Unknown,
        };
    }
    if word.is(0xbfbf_0000, 0x0c00_0000) || word.is(0xbf9f_0000, 0x0d00_0000) {
        return Step::Plain;
    }
    Step::Unknown
}

/// Loads from where nothing is saved.
fn loads(registers: [Option<u16>; 2]) -> Step {
    let touched = registers.iter().flatten().any(|register| writes(*register) == Step::Unknown);
    if touched { Step::Unknown } else { Step::Plain }
}

/// `whole`: the registers are of 64 bits, so that they can be saved by this.
fn access(
    registers: [Option<u16>; 2],
    whole: bool,
    load: bool,
    base: u16,
    index: Index,
    number: i64,
) -> Step {
    let base = match base {
        SP => Base::Stack,
        FP if index == Index::Offset => Base::Frame,
        FP | LR if index != Index::Offset => return Step::Unknown,
        _ if load => return loads(registers),
        _ => return Step::Plain,
    };
    if !whole && load && loads(registers) == Step::Unknown {
        return Step::Unknown;
    }
    let (offset, before, after) = match index {
        Index::Offset => (number, 0, 0),
        Index::Before => (0, number, 0),
        Index::After => (0, 0, number),
    };
    let registers = if whole { registers.map(|r| r.filter(|r| *r != SP)) } else { [None; 2] };
    let access = Access { registers, base, offset, before, after };
    if load { Step::Load(access) } else { Step::Store(access) }
}

/// Whether the stack was raised right before the jump at `at`.
pub(super) fn is_behind_frame<M: Memory>(memory: &mut M, at: u64) -> bool {
    let before = at.wrapping_sub(SIZE as u64);
    let mut word = [0; SIZE];
    let read = memory.read(before, &mut word) == SIZE;
    match decode(&word, before).0 {
        Step::Load(Access { after: 1.., .. }) | Step::Stack(1..) => read,
        _ => false,
    }
}

/// A function without a frame pointer that has not made all of its room on the stack yet, or not saved everything there.
pub(super) fn before_lowering(ahead: &Ahead, position: &Position<'_>) -> Option<SavedRule> {
    let body = position.body.filter(|body| body.cfa_register == SP && !ahead.left)?;
    let lowered = ahead.lowerings().iter().fold(0i64, |sum, lowering| match lowering {
        Lowering::By(by) => sum.saturating_add(*by),
        Lowering::Push(_) => sum.saturating_add(8),
    });
    let now = i64::from(body.cfa_offset).checked_sub(lowered).filter(|now| *now >= 0)?;
    let mut rule = SavedRule::new(Trust::Compact, SP, now.try_into().ok()?);
    let is_to_be_saved = |register: u16, place: u16| {
        let slot = now.wrapping_sub(i64::from(place).wrapping_mul(8));
        place != 0 && ahead.stores_on_stack(register, slot)
    };
    let mut incomplete = lowered > 0 || is_to_be_saved(LR, body.return_place);
    if !is_to_be_saved(LR, body.return_place) {
        rule.return_place = body.return_place;
    }
    for (register, place) in followed(Architecture::Arm64).iter().zip(&body.places) {
        if is_to_be_saved(*register, *place) {
            incomplete = true;
        } else {
            rule.save(Architecture::Arm64, *register, *place);
        }
    }
    incomplete.then_some(rule)
}
