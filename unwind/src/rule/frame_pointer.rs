//! The frame pointer rule.

use crate::memory::Memory;
use crate::walk::StopReason;

/// The part of memory that a thread's stack may occupy: `low..high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackBounds {
    /// The lowest address, inclusive: a stopped thread's stack pointer, or its stack's mapping.
    pub low: u64,
    /// The end, exclusive; `u64::MAX` if it is not known.
    pub high: u64,
}

impl StackBounds {
    /// Everything above `low`.
    pub const fn above(low: u64) -> Self {
        Self { low, high: u64::MAX }
    }
}

/// A frame pointer: the address of a frame record, `{ caller's frame pointer, return address }`. Both architectures
/// lay it out alike:
///
/// ```text
/// (pc, sp, fp) = (*(fp + 8), fp + 16, *fp)
/// ```
///
/// arm64 does not say where the caller's stack pointer is; `fp + 16` is then a lower bound of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePointer(pub u64);

/// What [`FramePointer::apply`] yields: the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The return address, raw.
    pub pc: u64,
    /// The stack pointer after the return.
    pub sp: u64,
    /// The caller's frame pointer, not checked yet.
    pub fp: FramePointer,
}

impl FramePointer {
    /// Size and required alignment of the words of a frame record.
    const WORD: u64 = 8;
    /// No code lies in the first page: a return address there is the end of a stack, or a null call.
    const NULL_PAGE: u64 = 4096;

    /// The caller, if this frame pointer lies in `bounds`, is aligned, and its record can be read.
    ///
    /// # Errors
    /// The reason to stop; a null frame pointer is the regular end of a stack.
    ///
    /// # Signal safety
    /// Safe if `memory` is.
    #[inline]
    pub fn apply<M: Memory>(self, memory: &mut M, bounds: StackBounds) -> Result<Caller, StopReason> {
        let fp = self.0;
        if fp == 0 {
            return Err(StopReason::EndOfStack);
        }
        if !fp.is_multiple_of(Self::WORD) {
            return Err(StopReason::Misaligned(fp));
        }
        if fp < bounds.low {
            return Err(StopReason::NotAscending(fp));
        }
        let (Some(return_slot), Some(sp)) = (fp.checked_add(Self::WORD), fp.checked_add(2 * Self::WORD))
        else {
            return Err(StopReason::OutOfBounds(fp));
        };
        if sp > bounds.high {
            return Err(StopReason::OutOfBounds(fp));
        }
        let next = memory.read_u64(fp).ok_or(StopReason::Unreadable(fp))?;
        let pc = memory.read_u64(return_slot).ok_or(StopReason::Unreadable(return_slot))?;
        if pc < Self::NULL_PAGE {
            return Err(StopReason::NullReturnAddress);
        }
        Ok(Caller { pc, sp, fp: Self(next) })
    }
}
