//! The way on from code that no table describes.

use super::context::Found;
use crate::images::Range;
use crate::memory::Memory;
use crate::rule::{FrameAddress, Rule, Trust};
use crate::tables::prologue::{Found as Ahead, Position, look_ahead};
use freezeframe_arch::Architecture;

/// What the instructions ahead say of a thread that stands at `address`; the frame pointer, if they say nothing or a call is
/// going on there: then the frame is complete. [`Found::Nothing`] if they cannot be read.
pub(super) fn look_up<M: Memory>(memory: &mut M, architecture: Architecture, address: FrameAddress) -> Found {
    if matches!(address, FrameAddress::ReturnAddress(_)) {
        return Found::Rule(Rule::FramePointer);
    }
    let pc = address.raw();
    if memory.read(pc, &mut [0]) == 0 {
        return Found::Nothing;
    }
    let position = Position { pc, function: Range::default(), body: None };
    Found::Rule(match look_ahead(memory, architecture, &position) {
        Ahead::Prologue(rule) | Ahead::Epilogue(rule) => {
            let in_register = rule.return_address().is_none();
            // No better than a frame pointer: where the function begins is not known.
            Rule::Saved(rule.with_trust(if in_register { Trust::LinkRegister } else { Trust::FramePointer }))
        }
        Ahead::Body => Rule::FramePointer,
    })
}
