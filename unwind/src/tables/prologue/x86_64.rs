//! x86_64's instructions, and its prologues of pushes.
//!
//! ```text
//! prefixes │ REX │ opcode: 1 to 3 bytes │ ModRM │ SIB │ displacement: 1, 4 │ immediate: 1, 2, 4, 8
//! ```
//!
//! Only the size of most instructions matters, and whether they write rsp or rbp. Vector instructions (VEX, EVEX) are
//! measured alike; those few of them that write integer registers write temporary ones.

mod decode;
mod opcode;

pub(super) use decode::{LONGEST, decode};

use super::Position;
use super::ahead::{Ahead, Lowering};
use crate::memory::Memory;
use crate::rule::{SavedRule, followed};
use freezeframe_arch::Architecture;

const RBP: u16 = 6;
const RSP: u16 = 7;
/// rbx, rbp, r12 to r15, and room.
const MOST: usize = 7;

/// The instructions that make the frame which a rule describes, in order: pushes, then room.
struct Making {
    lowerings: [Lowering; MOST],
    count: usize,
}

impl Making {
    fn of(body: &SavedRule) -> Self {
        let mut making = Self { lowerings: [Lowering::By(0); MOST], count: 0 };
        // The frame pointer is pushed before it is set.
        let first = if body.cfa_register == RBP { 3 } else { 2 };
        let mut at = first;
        while let Some(register) = pushed_at(body, at) {
            making.add(Lowering::Push(register));
            at = at.saturating_add(1);
        }
        if body.cfa_register == RSP {
            let pushed = i64::from(at).saturating_sub(1).saturating_mul(8);
            let room = i64::from(body.cfa_offset).saturating_sub(pushed);
            if room > 0 {
                making.add(Lowering::By(room));
            }
        }
        making
    }

    fn add(&mut self, lowering: Lowering) {
        if let Some(slot) = self.lowerings.get_mut(self.count) {
            *slot = lowering;
            self.count = self.count.saturating_add(1);
        }
    }

    fn all(&self) -> &[Lowering] {
        self.lowerings.get(..self.count).unwrap_or(&[])
    }
}

/// The register that a rule finds at a place.
fn pushed_at(body: &SavedRule, place: u16) -> Option<u16> {
    let mut registers = followed(Architecture::X86_64).iter().zip(&body.places);
    registers.find(|(_, other)| **other == place).map(|(register, _)| *register)
}

/// Some of the instructions that make the frame are still ahead, the last ones. The one before them must be right before
/// the address: arguments are pushed, too.
pub(super) fn between_pushes<M: Memory>(
    memory: &mut M,
    ahead: &Ahead,
    position: &Position<'_>,
) -> Option<SavedRule> {
    let body = position.body.filter(|_| !ahead.left)?;
    let making = Making::of(body);
    let all = making.all();
    let made = (0..all.len()).find(|made| {
        let rest = all.get(*made..).unwrap_or(&[]);
        ahead.lowerings().starts_with(rest) && is_behind(memory, position.pc, body, all, *made)
    })?;
    let mut rule = *body;
    for lowering in all.get(made..).unwrap_or(&[]) {
        let size = match lowering {
            Lowering::Push(register) => {
                rule.save(Architecture::X86_64, *register, 0);
                8
            }
            Lowering::By(by) => i32::try_from(*by).ok()?,
        };
        if body.cfa_register == RSP {
            rule.cfa_offset = rule.cfa_offset.checked_sub(size)?;
        }
    }
    Some(rule)
}

/// Whether the instruction before `pc` is the one before `made` in the making of the frame.
fn is_behind<M: Memory>(memory: &mut M, pc: u64, body: &SavedRule, all: &[Lowering], made: usize) -> bool {
    const SET_FRAME: [&[u8]; 2] = [&[0x48, 0x89, 0xe5], &[0x48, 0x8b, 0xec]];
    match made.checked_sub(1).and_then(|last| all.get(last)) {
        // All of it is ahead.
        None if body.cfa_register == RSP => true,
        None => SET_FRAME.iter().any(|code| comes_before(memory, pc, code)),
        Some(Lowering::Push(register)) => push(*register).is_some_and(|code| comes_before(memory, pc, code)),
        Some(Lowering::By(_)) => false,
    }
}

/// Whether a register that functions preserve was popped right before the jump at `at`: the last of a frame. Pops of others
/// are not looked for, since their bytes are usual displacements, too.
pub(super) fn is_behind_frame<M: Memory>(memory: &mut M, at: u64) -> bool {
    const POPS: [&[u8]; 6] = [&[0x5b], &[0x5d], &[0x41, 0x5c], &[0x41, 0x5d], &[0x41, 0x5e], &[0x41, 0x5f]];
    POPS.iter().any(|code| comes_before(memory, at, code))
}

fn comes_before<M: Memory>(memory: &mut M, address: u64, code: &[u8]) -> bool {
    let mut before = [0; 3];
    let Some(before) = before.get_mut(..code.len()) else { return false };
    let start = address.wrapping_sub(code.len() as u64);
    memory.read(start, before) == code.len() && before == code
}

const fn push(register: u16) -> Option<&'static [u8]> {
    Some(match register {
        3 => &[0x53],
        RBP => &[0x55],
        12 => &[0x41, 0x54],
        13 => &[0x41, 0x55],
        14 => &[0x41, 0x56],
        15 => &[0x41, 0x57],
        _ => return None,
    })
}
