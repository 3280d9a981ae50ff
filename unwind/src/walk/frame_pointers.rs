//! The walk by frame pointers alone: a few nanoseconds a frame, and right only where every function keeps them.

use super::{Frame, StopReason, Walk};
use crate::images::{ImageTable, Range};
use crate::memory::Memory;
use crate::rule::{FrameAddress, FramePointer, StackBounds, Trust};
use freezeframe_arch::{PacMask, Registers};

/// Walks a stack by frame pointers.
///
/// Each frame pointer must lie strictly above the last one and inside the bounds, be aligned and readable, and each
/// return address must lie in code, if it is known where code is: else the walk ends, with the reason. So it always
/// ends, and does not invent frames.
///
/// ```
/// use freezeframe_arch::{PacMask, Registers, RegistersX86_64};
/// use freezeframe_unwind::memory::SliceMemory;
/// use freezeframe_unwind::rule::StackBounds;
/// use freezeframe_unwind::walk::{FramePointerWalker, StopReason, Walk};
///
/// // One frame record at 0x1000: the end of the chain, and a return address.
/// let mut memory = SliceMemory::new(0x1000, &[0, 0, 0, 0, 0, 0, 0, 0, 0x34, 0x12, 0, 0, 0, 0, 0, 0]);
/// let registers = RegistersX86_64 { rip: 0x5000, rsp: 0xff0, rbp: 0x1000, ..Default::default() };
/// let mut walker = FramePointerWalker::new(&Registers::X86_64(registers), StackBounds::above(0xff0), PacMask::NONE);
/// assert_eq!(walker.next(&mut memory).map(|frame| frame.address.raw()), Ok(0x5000));
/// assert_eq!(walker.next(&mut memory).map(|frame| frame.address.raw()), Ok(0x1234));
/// assert_eq!(walker.next(&mut memory), Err(StopReason::EndOfStack));
/// ```
#[derive(Clone, Debug)]
pub struct FramePointerWalker<'a> {
    images: Option<&'a ImageTable>,
    /// The code in which the last return address lay, where most often the next one lies, too: `code_length` bytes from
    /// `code_start` on. Everything, without images.
    code_start: u64,
    code_length: u64,
    pac: PacMask,
    bounds: StackBounds,
    fp: FramePointer,
    first: Option<Frame>,
    steps_left: u32,
}

impl<'a> FramePointerWalker<'a> {
    /// No real stack has more frames: 16 MiB of the smallest possible ones.
    const STEPS: u32 = 1 << 20;

    /// What counts as code if it is not known where code is.
    const EVERYTHING: Range = Range { start: 0, end: u64::MAX };

    /// A walk from `registers` outward, inside `bounds`.
    ///
    /// # Signal safety
    /// Safe, as is every method of this type.
    pub const fn new(registers: &Registers, bounds: StackBounds, pac: PacMask) -> Self {
        let first = Frame {
            address: FrameAddress::InstructionPointer(registers.pc()),
            sp: registers.sp(),
            trust: Trust::Context,
        };
        Self {
            images: None,
            code_start: 0,
            code_length: u64::MAX,
            pac,
            bounds,
            fp: FramePointer(registers.fp()),
            first: Some(first),
            steps_left: Self::STEPS,
        }
    }

    /// Accepts only return addresses that lie in the code of `images`.
    pub const fn with_images(mut self, images: &'a ImageTable) -> Self {
        self.images = Some(images);
        self.code_length = 0;
        self
    }

    /// What called the last frame.
    #[inline]
    fn caller<M: Memory>(&mut self, memory: &mut M) -> Result<Frame, StopReason> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(StopReason::Limit)?;
        let caller = self.fp.apply(memory, self.bounds)?;
        let code = self.pac.strip(caller.pc);
        let call = FrameAddress::ReturnAddress(code).lookup();
        if call.wrapping_sub(self.code_start) >= self.code_length {
            let range = code_around(self.images, call).ok_or(StopReason::NotCode(code))?;
            (self.code_start, self.code_length) = (range.start, range.end.wrapping_sub(range.start));
        }
        // Strict ascent: the next record lies above this one.
        self.bounds.low = caller.sp;
        self.fp = caller.fp;
        Ok(Frame {
            address: FrameAddress::ReturnAddress(caller.pc),
            sp: caller.sp,
            trust: Trust::FramePointer,
        })
    }
}

impl Walk for FramePointerWalker<'_> {
    fn pac(&self) -> PacMask {
        self.pac
    }

    #[inline]
    fn next<M: Memory>(&mut self, memory: &mut M) -> Result<Frame, StopReason> {
        match self.first.take() {
            Some(first) => Ok(first),
            None => self.caller(memory),
        }
    }

    /// What most walks consist of, and so kept short: from a walker in registers straight into the frames' places.
    #[inline]
    fn fill<M: Memory>(&mut self, memory: &mut M, frames: &mut [Frame]) -> (usize, Result<(), StopReason>) {
        let room = frames.len();
        let mut slots = frames.iter_mut();
        let mut walk = self.clone();
        if walk.first.is_some()
            && let Some(slot) = slots.next()
        {
            *slot = walk.first.take().unwrap_or(Frame::EMPTY);
        }
        let result = loop {
            // A place first: a frame that finds none would be lost.
            let Some(slot) = slots.next() else { break Ok(()) };
            match walk.caller(memory) {
                Ok(frame) => *slot = frame,
                Err(stop) => break Err(stop),
            }
        };
        *self = walk;
        // A walk that ended has left its last place empty.
        let unused = slots.len().saturating_add(usize::from(result.is_err()));
        (room.saturating_sub(unused), result)
    }
}

/// The code that `call` lies in. Cold: from frame to frame it is mostly the same.
#[cold]
fn code_around(images: Option<&ImageTable>, call: u64) -> Option<Range> {
    match images {
        Some(images) => images.code_around(call),
        None => Some(FramePointerWalker::EVERYTHING),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::memory::SliceMemory;
    use freezeframe_arch::{RegistersArm64, RegistersX86_64};
    use std::vec::Vec;

    const BASE: u64 = 0x7000_0000;

    /// A stack of words from `BASE` on.
    fn stack(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn x86(fp: u64) -> Registers {
        Registers::X86_64(RegistersX86_64 { rip: 0x10_0000, rsp: BASE, rbp: fp, ..Default::default() })
    }

    fn walk(registers: Registers, bytes: &[u8], high: u64, pac: PacMask) -> (Vec<u64>, StopReason) {
        let mut memory = SliceMemory::new(BASE, bytes);
        let mut walker = FramePointerWalker::new(&registers, StackBounds { low: registers.sp(), high }, pac);
        let mut frames = Vec::new();
        loop {
            match walker.next(&mut memory) {
                Ok(frame) => frames.push(frame.address.raw()),
                Err(stop) => {
                    assert_eq!(walker.next(&mut memory), Err(stop), "an ended walk stays ended");
                    return (frames, stop);
                }
            }
        }
    }

    fn walk_x86(fp: u64, words: &[u64]) -> (Vec<u64>, StopReason) {
        walk(x86(fp), &stack(words), u64::MAX, PacMask::NONE)
    }

    #[test]
    fn a_chain_is_followed_to_its_null_end() {
        let words = [7, 7, BASE + 40, 0x20_0000, 7, BASE + 64, 0x30_0000, 7, 0, 0x40_0000];
        assert_eq!(
            walk_x86(BASE + 16, &words),
            (std::vec![0x10_0000, 0x20_0000, 0x30_0000, 0x40_0000], StopReason::EndOfStack)
        );
    }

    #[test]
    fn each_way_a_chain_can_break_has_its_reason() {
        let one = |next| walk_x86(BASE, &[next, 0x20_0000, 0, 0]);
        let two = std::vec![0x10_0000, 0x20_0000];
        assert_eq!(one(BASE), (two.clone(), StopReason::NotAscending(BASE)), "points to itself");
        assert_eq!(one(BASE + 8), (two.clone(), StopReason::NotAscending(BASE + 8)), "overlaps its callee");
        assert_eq!(one(BASE + 17), (two.clone(), StopReason::Misaligned(BASE + 17)));
        assert_eq!(one(BASE + 4096), (two.clone(), StopReason::Unreadable(BASE + 4096)));
        assert_eq!(one(BASE + 24), (two.clone(), StopReason::Unreadable(BASE + 32)), "half a record");
        assert_eq!(one(BASE + 16), (two, StopReason::NullReturnAddress));
        assert_eq!(walk_x86(0, &[]), (std::vec![0x10_0000], StopReason::EndOfStack));
        let below = BASE - 16;
        assert_eq!(walk_x86(below, &[]), (std::vec![0x10_0000], StopReason::NotAscending(below)), "below sp");
        let top = u64::MAX - 7;
        assert_eq!(
            walk_x86(top, &[]),
            (std::vec![0x10_0000], StopReason::OutOfBounds(top)),
            "must not overflow"
        );
    }

    #[test]
    fn the_stacks_end_bounds_the_chain_even_where_memory_goes_on() {
        let bytes = stack(&[BASE + 16, 0x20_0000, 0, 0x30_0000]);
        let (frames, stop) = walk(x86(BASE), &bytes, BASE + 31, PacMask::NONE);
        assert_eq!((frames.len(), stop), (2, StopReason::OutOfBounds(BASE + 16)));
        let (frames, stop) = walk(x86(BASE), &bytes, BASE + 32, PacMask::NONE);
        assert_eq!((frames.len(), stop), (3, StopReason::EndOfStack));
    }

    #[test]
    fn an_arm64_stack_is_walked_on_any_machine_and_keeps_its_raw_addresses() {
        let signed = 0x0031_0000_0020_0000;
        let bytes = stack(&[BASE + 16, signed, 0, 0x30_0000]);
        let mut registers = RegistersArm64 { pc: 0x10_0000, sp: BASE, ..Default::default() };
        registers.x[29] = BASE;
        let (frames, stop) =
            walk(Registers::Arm64(registers), &bytes, u64::MAX, PacMask::from_address_bits(48));
        assert_eq!((frames, stop), (std::vec![0x10_0000, signed, 0x30_0000], StopReason::EndOfStack));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn with_images_a_walk_goes_from_one_to_another_and_ends_outside_their_code() {
        unsafe extern "C" {
            fn getppid() -> i32;
        }
        let mut images = std::boxed::Box::new(ImageTable::new());
        images.refresh().unwrap();
        let ours = x86 as *const () as u64 + 1;
        let theirs = getppid as *const () as u64 + 1;
        let data = &raw const *images as u64;
        let pcs = [ours, theirs, theirs, ours, data, ours];
        let words = pcs.iter().zip(1..).flat_map(|(pc, n)| [BASE + 16 * n, *pc]).collect::<Vec<_>>();
        let bytes = stack(&words);
        let mut walker =
            FramePointerWalker::new(&x86(BASE), StackBounds::above(BASE), PacMask::NONE).with_images(&images);
        let mut memory = SliceMemory::new(BASE, &bytes);
        let mut next = || walker.next(&mut memory).map(|frame| frame.address.raw());
        assert_eq!(next(), Ok(0x10_0000), "the registers are believed");
        assert!(pcs[..4].iter().all(|pc| next() == Ok(*pc)));
        assert_eq!((next(), next()), (Err(StopReason::NotCode(data)), Err(StopReason::NotCode(data))));
    }
}
