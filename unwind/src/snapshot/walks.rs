//! From a thread that is held to its frames: registers, one copy, the release, the walk.

use super::frames::Share;
use super::{Held, ThreadCapture};
use crate::images::ImageTable;
use crate::memory::{Memory, ProcessMemory, SliceMemory, StackCopy};
use crate::rule::{KnownRegisters, StackBounds};
use crate::suspend::SuspendError;
use crate::walk::{Backtrace, StopReason, WalkContext, Walker};
use freezeframe_arch::{PacMask, Registers};

/// How many bytes beneath the stack pointer belong to a function (System V ABI for AMD64, section 3.2.2).
pub(super) const BENEATH: u64 = 128;

/// A thread that stands still, or waits: from when this was made to its [`end`](Self::end).
pub(super) trait Hold {
    /// Its registers, and which of them are known.
    fn registers(&self) -> (Registers, KnownRegisters);

    /// Lets it go, and says in which way it was held.
    ///
    /// # Errors
    /// It has gone on meanwhile: nothing that was read is worth anything.
    fn end(self) -> Result<Held, SuspendError>;
}

/// A way of holding one certain thread, as often as that takes.
pub(super) trait Holder {
    type Hold<'a>: Hold
    where
        Self: 'a;

    /// # Errors
    /// Why the thread cannot be held.
    fn hold(&mut self) -> Result<Self::Hold<'_>, SuspendError>;
}

/// How far a walk has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// To the end of the stack, and no register was missing.
    End,
    /// Not to the end, and holding the thread again would not help.
    Short,
    /// Out of the bytes that were copied.
    Beyond,
}

/// Walks, and the memory for them.
pub(super) struct Walks<'a> {
    pub(super) ground: Ground<'a>,
    /// This process's memory, for stacks.
    pub(super) memory: ProcessMemory,
    /// The buffer for the copy of a stack.
    pub(super) stack: &'a mut [u8],
}

/// What all walks share.
pub(super) struct Ground<'a> {
    pub(super) images: &'a ImageTable,
    pub(super) pac: PacMask,
    pub(super) tables: ProcessMemory,
    pub(super) context: &'a mut WalkContext,
}

impl Walks<'_> {
    /// Takes a thread: once, and again if its stack leaves what was copied, for then it is walked while it is held. That
    /// is one deeper than the buffer, or one in several pieces: a signal handler may run on a stack of its own.
    ///
    /// # Errors
    /// Why the thread cannot be held, the first time.
    pub(super) fn take<H: Holder>(
        &mut self,
        thread: &mut ThreadCapture,
        share: &mut Share<'_>,
        still: &dyn Fn() -> bool,
        mut holder: H,
    ) -> Result<Reach, SuspendError> {
        let reach = self.take_copy(thread, share, still, holder.hold()?)?;
        if reach != Reach::Beyond {
            return Ok(reach);
        }
        // What was found stays, if it cannot be held again.
        let again = holder.hold().and_then(|hold| self.take_held(thread, share, still, hold));
        Ok(again.unwrap_or(Reach::Short))
    }

    /// From `hold` to its end: registers, one copy, and the one question.
    fn take_copy<H: Hold>(
        &mut self,
        thread: &mut ThreadCapture,
        share: &mut Share<'_>,
        still: &dyn Fn() -> bool,
        hold: H,
    ) -> Result<Reach, SuspendError> {
        let (registers, known) = hold.registers();
        let bounds = self.ground.bounds(&registers);
        let mut copy = StackCopy::new(self.stack);
        copy_stack(&mut copy, &mut self.memory, bounds);
        let moved = !still();
        let held = hold.end()?;
        thread.note(held, registers, bounds, copy.copies());
        thread.moved = moved;
        Ok(self.ground.walk_window(thread, share, known, copy.window()))
    }

    /// The same, with the walk before the end.
    fn take_held<H: Hold>(
        &mut self,
        thread: &mut ThreadCapture,
        share: &mut Share<'_>,
        still: &dyn Fn() -> bool,
        hold: H,
    ) -> Result<Reach, SuspendError> {
        let (registers, known) = hold.registers();
        let bounds = self.ground.bounds(&registers);
        let mut copy = StackCopy::new(self.stack);
        copy_stack(&mut copy, &mut self.memory, bounds);
        let moved = !still();
        let earlier = thread.summary;
        let mut memory = copy.continue_in(&mut self.memory);
        let reach = self.ground.walk(thread, share, &registers, known, bounds, &mut memory);
        let held = hold.end();
        if held.is_err() {
            thread.summary = earlier;
        }
        thread.note(held?, registers, bounds, copy.copies());
        thread.moved = moved;
        Ok(reach)
    }

    /// The capturing thread itself, from here on outward, or from where it was interrupted.
    pub(super) fn take_own(
        &mut self,
        interrupted: Option<&Registers>,
        thread: &mut ThreadCapture,
        share: &mut Share<'_>,
    ) {
        // Here, not in a closure, whose frame would be gone.
        let registers = match interrupted {
            Some(registers) => *registers,
            None => freezeframe_arch::capture(),
        };
        let bounds = self.ground.bounds(&registers);
        let mut copy = StackCopy::new(self.stack);
        copy_stack(&mut copy, &mut self.memory, bounds);
        let mut memory = copy.continue_in(&mut self.memory);
        self.ground.walk(thread, share, &registers, KnownRegisters::ALL, bounds, &mut memory);
        thread.note(Held::Itself, registers, bounds, copy.copies());
    }
}

impl Ground<'_> {
    pub(super) fn bounds(&self, registers: &Registers) -> StackBounds {
        let main = self.images.main_stack();
        let low = registers.sp();
        if main.contains(low) { StackBounds { low, high: main.end } } else { StackBounds::above(low) }
    }

    /// Walks a copy of a thread's stack; the thread's registers are noted already.
    pub(super) fn walk_window(
        &mut self,
        thread: &mut ThreadCapture,
        share: &mut Share<'_>,
        known: KnownRegisters,
        mut window: SliceMemory<'_>,
    ) -> Reach {
        let Some(registers) = thread.registers else { return Reach::Short };
        let bounds = self.bounds(&registers);
        match self.walk(thread, share, &registers, known, bounds, &mut window) {
            Reach::Short if leaves(&mut window, thread.summary.stop) => Reach::Beyond,
            reach => reach,
        }
    }

    fn walk<M: Memory>(
        &mut self,
        thread: &mut ThreadCapture,
        share: &mut Share<'_>,
        registers: &Registers,
        known: KnownRegisters,
        bounds: StackBounds,
        memory: &mut M,
    ) -> Reach {
        let walker = Walker::new(registers, bounds, self.pac, self.images, &mut self.tables, self.context);
        let mut walker = walker.knowing(registers, known);
        thread.summary = Backtrace::new(share.storage, share.depth).collect(&mut walker, memory);
        thread.first_frame = share.start;
        let whole = thread.summary.stop == StopReason::EndOfStack && !walker.lacked_register();
        if whole { Reach::End } else { Reach::Short }
    }
}

/// Copies a stack, with what a function may keep beneath its stack pointer. There, too, tables look for registers that an
/// epilogue has popped already.
fn copy_stack(copy: &mut StackCopy<'_>, memory: &mut ProcessMemory, bounds: StackBounds) {
    copy.fill(memory, bounds.low.saturating_sub(BENEATH), bounds.high);
    // The stack pointer may be all but at the end of the stack.
    if copy.is_empty() {
        copy.fill(memory, bounds.low, bounds.high);
    }
}

/// Whether a walk has ended for want of bytes that a copy does not hold.
fn leaves(window: &mut SliceMemory<'_>, stop: StopReason) -> bool {
    match stop {
        StopReason::Unreadable(address) => window.read(address, &mut [0]) == 0,
        _ => false,
    }
}
