//! What the supervisor and the helper share.

use crate::images::Range;
use crate::sys::Fd;
use crate::threads::ThreadId;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use freezeframe_arch::Registers;

/// A thread that is to be held with all others, and what was read of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub(crate) thread: ThreadId,
    pub(crate) state: SeatState,
    /// If it was read.
    pub(crate) registers: Registers,
    /// The address that the copy of its stack begins at, and where in the arena that is.
    pub(crate) base: u64,
    pub(crate) window: Range,
    /// Between these times it was held, if it was at all.
    pub(crate) held: Range,
}

/// How far a thread has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeatState {
    /// Nothing was done to it.
    Listed,
    /// It is not to be stopped.
    LeftOut,
    /// It was told to stop.
    Interrupted,
    /// It stands still.
    Held,
    /// It stood still, and its registers and its stack were copied.
    Read,
    /// The kernel does not let us trace it: the error number.
    Refused(i32),
    /// It has ended.
    Gone,
}

impl Seat {
    pub(crate) const EMPTY: Self = Self::of(ThreadId(0));

    pub(crate) const fn of(thread: ThreadId) -> Self {
        Self {
            thread,
            state: SeatState::Listed,
            registers: Registers::ZERO,
            base: 0,
            window: Range { start: 0, end: 0 },
            held: Range { start: 0, end: 0 },
        }
    }
}

/// What the helper is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Step {
    /// It was not yet there.
    Starting = 0,
    /// It lists threads and tells them to stop.
    Seizing = 1,
    /// It waits until they stand still.
    Gathering = 2,
    /// All are held; it copies.
    Reading = 3,
    /// It lets them go.
    Releasing = 4,
    /// Nobody is held any more.
    Done = 5,
}

impl Step {
    pub(crate) const fn from_code(code: u32) -> Self {
        match code {
            0 => Self::Starting,
            1 => Self::Seizing,
            2 => Self::Gathering,
            3 => Self::Reading,
            4 => Self::Releasing,
            _ => Self::Done,
        }
    }
}

/// The caller's memory, in which the helper works while the caller waits. Its first seats are taken by the threads that
/// matter, in their order; threads that are found to be there take the next ones.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    pub(crate) seats: &'a mut [Seat],
    /// How many seats are taken.
    pub(crate) taken: usize,
    pub(crate) arena: &'a mut [u8],
    /// How many bytes of the first seat's stack are copied.
    pub(crate) first_window: usize,
    /// How many bytes of each other stack are copied.
    pub(crate) other_window: usize,
}

/// What the helper is to do, by whom it is watched, and how far it is.
#[derive(Debug)]
pub(super) struct Job<'a> {
    /// The process that the helper works for, and the thread of it that must run on.
    pub(super) process: i32,
    pub(super) supervisor: ThreadId,
    /// Threads that must not be stopped.
    pub(super) exclude: &'a [ThreadId],
    /// Whether threads that have no seat are to be held, too.
    pub(super) everybody: bool,
    /// The list of the threads, opened by the supervisor: a helper that is killed leaves no descriptor behind.
    pub(super) list: &'a Fd,
    /// A pipe for reading memory where `process_vm_readv` may not be used.
    pub(super) pipe: Option<&'a (Fd, Fd)>,
    pub(super) main_stack: Range,
    /// From how many bytes beneath the stack pointer on stacks are copied.
    pub(super) beneath: u64,
    /// When what does not yet stand still is given up.
    pub(super) stop_until: u64,
    /// After how many nanoseconds a thread is given up that keeps all the others waiting.
    pub(super) straggler_ns: u64,
    /// Where the helper's signal stack is, and how large.
    pub(super) signal_stack: (usize, usize),
    pub(super) room: UnsafeCell<Room<'a>>,
    /// Threads that were found and had no seat left.
    pub(super) standing: AtomicUsize,
    /// Set when the helper may begin.
    pub(super) go: AtomicU32,
    /// Cleared by the kernel when the helper has ended.
    pub(super) alive: AtomicU32,
    pub(super) step: AtomicU32,
}

// SAFETY: all is atomic or not written to while both sides see it, but `room`: the helper's until it has ended.
unsafe impl Sync for Job<'_> {}

impl Job<'_> {
    pub(super) fn come_to(&self, step: Step) {
        self.step.store(step as u32, Ordering::Release);
        #[cfg(test)]
        super::tests::strike(step);
    }

    pub(super) fn step(&self) -> Step {
        Step::from_code(self.step.load(Ordering::Acquire))
    }
}
