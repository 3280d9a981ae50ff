//! Prologues and epilogues: the rule that is right at an instruction, read from the instructions ahead of it.
//!
//! Compact unwind information describes frames that are complete. A thread can be stopped while a frame is being made
//! or taken down, and in code that no table describes. What the code is about to do says what it has done so far:
//!
//! ```text
//!     stp  x20, x19, [sp, #-32]!  ◀── the registers are still to be saved, the frame pointer is still to be set
//!     stp  x29, x30, [sp, #16]    ◀── x19 and x20 are saved by now
//!     add  x29, sp, #16           ◀── only the frame pointer is still to be set, to where the record is
//!     bl   _work                  ◀── the frame is complete: the table is right
//!     ldp  x29, x30, [sp, #16]    ◀── a return is ahead: follow the stack pointer until there
//!     ldp  x20, x19, [sp], #32
//!     ret                         ◀── everything is where it was at the call
//! ```
//!
//! Nothing before the address is needed but, on x86_64, an instruction's bytes to be sure: where a function begins is not
//! known, since tables name only the first of neighbours that are alike.
//!
//! Instructions are followed along the straight line, and across jumps, until a call, a return, or one that could change
//! what matters in a way that is not understood: then the rule of the table stands.
//!
//! Sources: Arm Architecture Reference Manual, chapter C4 (encodings); Intel's manual, volume 2, appendix A.

mod ahead;
mod arm64;
mod step;
mod x86_64;

use crate::images::Range;
use crate::memory::Memory;
use crate::rule::SavedRule;
use ahead::{Ahead, End};
use freezeframe_arch::Architecture;

/// Where a thread stands, and what tables say of it.
#[derive(Clone, Copy, Debug)]
pub struct Position<'a> {
    /// The address of the next instruction.
    pub pc: u64,
    /// The function, as far as its extent is known: neighbours may be taken for one. May be empty.
    pub function: Range,
    /// The rule that is right once the function's frame is complete, if one is known.
    pub body: Option<&'a SavedRule>,
}

/// What the instructions ahead say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The frame is not complete yet: this rule is right now.
    Prologue(SavedRule),
    /// The function returns, or goes over to another, without a further call: this rule is right until then.
    Epilogue(SavedRule),
    /// Neither: the body of the function, as far as can be seen.
    Body,
}

/// The rule that is right at an instruction, for a thread that stands there: not for a frame that has called another.
///
/// # Signal safety
/// Safe if `memory` is: a bounded number of instructions are read. About 6 KiB of stack.
///
/// ```
/// use freezeframe_arch::Architecture;
/// use freezeframe_unwind::images::Range;
/// use freezeframe_unwind::memory::SliceMemory;
/// use freezeframe_unwind::tables::prologue::{Found, Position, look_ahead};
///
/// // pop %rbp; ret
/// let position = Position { pc: 0x1000, function: Range { start: 0x1000, end: 0x1002 }, body: None };
/// let Found::Epilogue(rule) =
///     look_ahead(&mut SliceMemory::new(0x1000, &[0x5d, 0xc3]), Architecture::X86_64, &position)
/// else {
///     panic!()
/// };
/// let (rsp, rbp) = (7, 6);
/// assert_eq!(rule.cfa(), (rsp, 16));
/// assert_eq!(rule.saved(Architecture::X86_64, rbp), Some(-16));
/// ```
pub fn look_ahead<M: Memory>(memory: &mut M, architecture: Architecture, position: &Position<'_>) -> Found {
    let frame = Frame::of(architecture);
    let mut ahead = Ahead::new(architecture);
    let end = ahead.follow(memory, position, &frame);
    if end == End::Leaves
        && let Some(rule) = ahead.at_return(&frame)
    {
        return Found::Epilogue(rule);
    }
    let rule = ahead.before_frame(position, &frame).or_else(|| match architecture {
        Architecture::Arm64 => arm64::before_lowering(&ahead, position),
        Architecture::X86_64 => x86_64::between_pushes(memory, &ahead, position),
    });
    rule.map_or(Found::Body, Found::Prologue)
}

/// What frames of an architecture have in common.
#[derive(Clone, Copy, Debug)]
struct Frame {
    architecture: Architecture,
    fp: u16,
    sp: u16,
    /// Where a return address is that no instruction has saved.
    lr: Option<u16>,
    /// What a return takes from the stack, in bytes.
    taken_by_return: i64,
}

impl Frame {
    const fn of(architecture: Architecture) -> Self {
        match architecture {
            Architecture::Arm64 => Self { architecture, fp: 29, sp: 31, lr: Some(30), taken_by_return: 0 },
            Architecture::X86_64 => Self { architecture, fp: 6, sp: 7, lr: None, taken_by_return: 8 },
        }
    }
}

#[cfg(test)]
mod tests;
