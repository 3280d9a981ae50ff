//! The frames that are kept of a stack of any depth.

use super::repeat::{self, Repeat, RepeatFinder};
use super::{StopReason, Walk};
use crate::memory::Memory;
use crate::rule::{FrameAddress, Trust};
use freezeframe_arch::PacMask;

/// One frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where the thread was in this frame. On arm64 a return address may still carry its authentication code.
    pub address: FrameAddress,
    /// The stack pointer in this frame.
    pub sp: u64,
    /// Where the address came from.
    pub trust: Trust,
}

impl Frame {
    /// A frame to fill storage with.
    pub const EMPTY: Self =
        Self { address: FrameAddress::InstructionPointer(0), sp: 0, trust: Trust::Context };
}

/// How many frames to keep of a deep stack: from both ends, since the innermost say what it was doing and the
/// outermost how it got there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// How many of the innermost frames are kept.
    pub innermost: usize,
    /// How many of the outermost frames are kept.
    pub outermost: usize,
}

/// What a backtrace holds, once its walk has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many frames are kept: the first that many of the storage, innermost first.
    pub kept: usize,
    /// After how many frames some are left out.
    pub omitted_after: usize,
    /// Exactly how many frames are left out there.
    pub omitted: u64,
    /// Where the stack repeats, counted over all its frames, those left out included.
    pub repeat: Option<Repeat>,
    /// Why the walk ended.
    pub stop: StopReason,
}

/// Collects frames into storage of the caller: the innermost and the outermost, and counts the others.
#[derive(Debug)]
pub struct Backtrace<'a> {
    innermost: &'a mut [Frame],
    /// A ring of the latest frames beyond the innermost.
    outermost: &'a mut [Frame],
    total: u64,
    /// Looks for repetitions once there are more frames than the innermost.
    deep: Option<RepeatFinder>,
    pac: PacMask,
}

impl<'a> Backtrace<'a> {
    /// Keeps frames in `storage`, as many of each end as `depth` says or as it has room for; the outermost yield first.
    #[inline]
    pub fn new(storage: &'a mut [Frame], depth: Depth) -> Self {
        let inner = depth.innermost.min(storage.len());
        let (innermost, rest) = storage.split_at_mut_checked(inner).unwrap_or((&mut [], &mut []));
        let outer = depth.outermost.min(rest.len());
        let outermost = rest.get_mut(..outer).unwrap_or(&mut []);
        Self { innermost, outermost, total: 0, deep: None, pac: PacMask::NONE }
    }

    /// Takes every frame of `walker` and says what is there. The frames are in the storage given to [`new`](Self::new).
    ///
    /// # Signal safety
    /// Safe if `memory` is.
    pub fn collect<W: Walk, M: Memory>(mut self, walk: &mut W, memory: &mut M) -> Summary {
        self.pac = walk.pac();
        let (filled, result) = walk.fill(memory, self.innermost);
        self.total = filled as u64;
        let mut stop = result.err();
        while stop.is_none() {
            match walk.next(memory) {
                Ok(frame) => self.push(frame),
                Err(reason) => stop = Some(reason),
            }
        }
        self.finish(stop.unwrap_or(StopReason::Limit))
    }

    fn push(&mut self, frame: Frame) {
        let index = self.total;
        self.total = self.total.saturating_add(1);
        if let Some(slot) = self.innermost.get_mut(index as usize) {
            *slot = frame;
            return;
        }
        // Beyond the innermost, frames get lost: from here on repetitions are looked for as they pass by.
        let beyond = index.saturating_sub(self.innermost.len() as u64);
        let innermost = &*self.innermost;
        let pc = self.pac.strip(frame.address.raw());
        self.deep.get_or_insert_with(|| RepeatFinder::after(innermost, self.pac)).push(pc);
        let position = beyond.checked_rem(self.outermost.len() as u64).unwrap_or(0);
        if let Some(slot) = self.outermost.get_mut(position as usize) {
            *slot = frame;
        }
    }

    fn finish(self, stop: StopReason) -> Summary {
        let inner = self.innermost.len().min(self.total as usize);
        let beyond = self.total.saturating_sub(inner as u64);
        let room = self.outermost.len();
        let outer = beyond.min(room as u64) as usize;
        if beyond > room as u64 {
            let oldest = beyond.checked_rem(room as u64).unwrap_or(0) as usize;
            if oldest < room {
                self.outermost.rotate_left(oldest);
            }
        }
        let repeat = match beyond {
            0 => repeat::find(self.innermost.get(..inner).unwrap_or(&[]), self.pac),
            _ => self.deep.as_ref().and_then(RepeatFinder::best),
        };
        Summary {
            kept: inner.saturating_add(outer),
            omitted_after: inner,
            omitted: beyond.saturating_sub(outer as u64),
            repeat,
            stop,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::memory::SliceMemory;
    use crate::rule::StackBounds;
    use crate::walk::FramePointerWalker;
    use freezeframe_arch::{Registers, RegistersX86_64};
    use std::vec::Vec;

    fn frame(pc: u64) -> Frame {
        Frame { address: FrameAddress::ReturnAddress(pc), ..Frame::EMPTY }
    }

    fn keep<const N: usize>(
        pcs: impl Iterator<Item = u64>,
        inner: usize,
        outer: usize,
    ) -> ([u64; N], Summary) {
        let mut storage = [Frame::EMPTY; N];
        let mut backtrace = Backtrace::new(&mut storage, Depth { innermost: inner, outermost: outer });
        pcs.for_each(|pc| backtrace.push(frame(pc)));
        let summary = backtrace.finish(StopReason::EndOfStack);
        (storage.map(|frame| frame.address.raw()), summary)
    }

    #[test]
    fn both_ends_are_kept_in_order_and_the_rest_is_counted() {
        for total in 0..40u64 {
            let (pcs, summary) = keep::<8>(1..=total, 5, 3);
            let kept = total.min(8) as usize;
            assert_eq!((summary.kept, summary.omitted), (kept, total.saturating_sub(8)));
            assert_eq!(summary.omitted_after, total.min(5) as usize);
            let expected = (1..=total).filter(|n| *n <= 5 || *n > total.saturating_sub(3).max(5));
            assert!(pcs[..kept].iter().copied().eq(expected), "{total}: {pcs:?}");
        }
    }

    #[test]
    fn a_walk_of_any_length_fills_the_storage_like_frames_pushed_one_by_one() {
        const BASE: u64 = 0x7000_0000;
        for records in 0..20u64 {
            let fp = |n: u64| if n < records { BASE + 16 * n } else { 0 };
            let words = (0..records).flat_map(|n| [fp(n + 1), 5000 + n]);
            let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
            let registers = RegistersX86_64 { rip: 4999, rsp: BASE, rbp: fp(0), ..Default::default() };
            let registers = Registers::X86_64(registers);
            for (inner, outer) in [(0, 0), (0, 4), (1, 2), (5, 3), (8, 0)] {
                let mut storage = [Frame::EMPTY; 8];
                let mut walker = FramePointerWalker::new(&registers, StackBounds::above(BASE), PacMask::NONE);
                let backtrace = Backtrace::new(&mut storage, Depth { innermost: inner, outermost: outer });
                let summary = backtrace.collect(&mut walker, &mut SliceMemory::new(BASE, &bytes));
                let pcs = storage.map(|frame| frame.address.raw());
                assert_eq!((pcs, summary), keep::<8>(4999..=4999 + records, inner, outer));
            }
        }
    }

    #[test]
    fn signed_return_addresses_repeat_like_plain_ones() {
        for frames in [6, 100u64] {
            let mut storage = [Frame::EMPTY; 8];
            let mut backtrace = Backtrace::new(&mut storage, Depth { innermost: 6, outermost: 2 });
            backtrace.pac = PacMask::from_address_bits(48);
            (0..frames).for_each(|n| backtrace.push(frame(0x5000 | n << 48 & 0x007f << 48)));
            let summary = backtrace.finish(StopReason::EndOfStack);
            assert_eq!(summary.repeat, Some(Repeat { first: 0, period: 1, times: frames }));
        }
    }

    #[test]
    fn storage_too_small_for_the_depth_keeps_the_innermost() {
        let (pcs, summary) = keep::<4>(1..=10, 6, 6);
        assert_eq!((pcs, summary.kept, summary.omitted), ([1, 2, 3, 4], 4, 6));
        let (_, summary) = keep::<0>(1..=10, 6, 6);
        assert_eq!((summary.kept, summary.omitted_after, summary.omitted), (0, 0, 10));
    }

    #[test]
    fn a_repetition_is_counted_across_the_frames_left_out() {
        let recursion = (1..=3).chain((0..100_000).map(|n| 50 + n % 2)).chain([8, 9]);
        let (pcs, summary) = keep::<8>(recursion, 5, 3);
        assert_eq!(summary.repeat, Some(Repeat { first: 3, period: 2, times: 50_000 }));
        assert_eq!((pcs, summary.omitted), ([1, 2, 3, 50, 51, 51, 8, 9], 99_997));
        let (_, shallow) = keep::<8>([4, 4, 4, 4].into_iter(), 8, 0);
        assert_eq!(shallow.repeat, Some(Repeat { first: 0, period: 1, times: 4 }));
    }
}
