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
    const RECORD: u64 = 2 * Self::WORD;
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
        let last = bounds.high.saturating_sub(Self::RECORD);
        if fp == 0 || !fp.is_multiple_of(Self::WORD) || fp < bounds.low || fp > last {
            return Err(self.misfit(bounds));
        }
        let sp = fp.wrapping_add(Self::RECORD);
        let [next, pc] = memory.read_record(fp).map_err(StopReason::Unreadable)?;
        if pc < Self::NULL_PAGE {
            return Err(StopReason::NullReturnAddress);
        }
        Ok(Caller { pc, sp, fp: Self(next) })
    }

    /// Why no record can be here. Cold: it ends a walk.
    #[cold]
    const fn misfit(self, bounds: StackBounds) -> StopReason {
        match self.0 {
            0 => StopReason::EndOfStack,
            fp if !fp.is_multiple_of(Self::WORD) => StopReason::Misaligned(fp),
            fp if fp < bounds.low => StopReason::NotAscending(fp),
            fp => StopReason::OutOfBounds(fp),
        }
    }
}
