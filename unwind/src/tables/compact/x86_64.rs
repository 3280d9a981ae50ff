//! x86_64's encodings.
//!
//! ```text
//! rbp frame (mode 1)                      frameless (modes 2 and 3)
//! cfa -  8  return address                cfa -  8  return address
//! cfa - 16  rbp ◀── rbp                   cfa - 16  ┐ the registers that were pushed,
//! …                                       …         ┘ the last one lowest
//! rbp - 8 × offset      first slot ┐      …
//! rbp - 8 × offset + 8  second     ├ 5    cfa - size ◀── rsp
//! …                                ┘
//! ```
//!
//! Registers have numbers of their own: 1 rbx, 2 r12, 3 r13, 4 r14, 5 r15, 6 rbp.

use super::{CompactError, Encoding, Unwinding};
use crate::memory::Memory;
use crate::rule::{SavedRule, Trust};
use freezeframe_arch::Architecture;

const RBP_FRAME: u32 = 1;
const FRAMELESS: u32 = 2;
const FRAMELESS_INDIRECT: u32 = 3;
const DWARF: u32 = 4;

/// The DWARF numbers of the registers that encodings number from 1.
const REGISTERS: [u16; 6] = [3, 12, 13, 14, 15, RBP];
const RBP: u16 = 6;
const RSP: u16 = 7;
/// `sub $imm32, %rsp`, before its number.
const SUB_RSP: [u8; 3] = [0x48, 0x81, 0xec];

pub(super) fn unwinding<M: Memory>(
    encoding: Encoding,
    memory: &mut M,
    function: u64,
) -> Result<Unwinding, CompactError> {
    match encoding.mode() {
        0 => Ok(Unwinding::None),
        RBP_FRAME => rbp_frame(encoding).map(Unwinding::Rule),
        FRAMELESS => {
            let size = u64::from(encoding.bits(16, 8)).saturating_mul(8);
            frameless(encoding, size).map(Unwinding::Rule)
        }
        FRAMELESS_INDIRECT => {
            let size = stack_size(encoding, memory, function)?;
            frameless(encoding, size).map(Unwinding::Rule)
        }
        DWARF => Ok(Unwinding::Dwarf { fde: encoding.bits(0, 24) }),
        _ => Err(CompactError::Mode(encoding.0)),
    }
}

fn rbp_frame(encoding: Encoding) -> Result<SavedRule, CompactError> {
    let error = CompactError::Registers(encoding.0);
    let mut rule = SavedRule::new(Trust::Compact, RBP, 16);
    rule.return_place = 1;
    rule.save(Architecture::X86_64, RBP, 2);
    let offset = encoding.bits(16, 8) as u16;
    for slot in 0..5u16 {
        let number = encoding.bits(u32::from(slot).saturating_mul(3), 3);
        let Some(index) = number.checked_sub(1) else { continue };
        let register = REGISTERS.get(index as usize).copied().filter(|register| *register != RBP);
        let below = offset.checked_sub(slot).filter(|below| *below > 0).ok_or(error)?;
        rule.save(Architecture::X86_64, register.ok_or(error)?, below.saturating_add(2));
    }
    Ok(rule)
}

fn frameless(encoding: Encoding, size: u64) -> Result<SavedRule, CompactError> {
    let error = CompactError::Registers(encoding.0);
    let count = encoding.bits(10, 3);
    let registers = permutation(count, encoding.bits(0, 10)).ok_or(error)?;
    if size < u64::from(count).saturating_add(1).saturating_mul(8) {
        return Err(error);
    }
    let mut rule = SavedRule::new(Trust::Compact, RSP, size.try_into().map_err(|_| error)?);
    rule.return_place = 1;
    let saved = registers.iter().take(count as usize);
    for (register, place) in saved.rev().zip(2..) {
        rule.save(Architecture::X86_64, *register, place);
    }
    Ok(rule)
}

/// The size of a frame that is too large for the encoding: from the instruction that makes it, whose number lies at an
/// offset in the function, and the pushes before it.
fn stack_size<M: Memory>(encoding: Encoding, memory: &mut M, function: u64) -> Result<u64, CompactError> {
    let number = function.saturating_add(encoding.bits(16, 8).into());
    let instruction = number.saturating_sub(SUB_RSP.len() as u64);
    let mut bytes = [0; 7];
    if memory.read(instruction, &mut bytes) != bytes.len() {
        return Err(CompactError::Unreadable(instruction));
    }
    let size = bytes.strip_prefix(&SUB_RSP).and_then(|number| number.first_chunk());
    let size = size.map(|number| u32::from_le_bytes(*number)).ok_or(CompactError::StackSize(instruction))?;
    Ok(u64::from(size).saturating_add(u64::from(encoding.bits(13, 3)).saturating_mul(8)))
}

/// The `count` registers that were pushed, the last one first. Their order is a number: each digit, with the base of how
/// many registers are left, says which of those left comes next.
///
/// ```text
/// count 3: number = 20 × d1 + 4 × d2 + d3     with d1 < 6, d2 < 5, d3 < 4
/// ```
fn permutation(count: u32, mut number: u32) -> Option<[u16; 6]> {
    let mut left = REGISTERS;
    let mut registers = [0; 6];
    if count > 6 {
        return None;
    }
    for (position, register) in (0..count).zip(&mut registers) {
        // The digits behind this one: their bases are 5 - position, and so on.
        let weight = (position.saturating_add(1)..count)
            .fold(1u32, |weight, digit| weight.saturating_mul(6u32.saturating_sub(digit)));
        let digit = number.checked_div(weight)?;
        number = number.checked_rem(weight)?;
        let mut there = left.iter_mut().filter(|register| **register != 0);
        *register = core::mem::take(there.nth(digit as usize)?);
    }
    Some(registers)
}
