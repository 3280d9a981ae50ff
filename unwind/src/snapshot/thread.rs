//! One thread of a snapshot.

use crate::locks::LockWait;
use crate::rule::StackBounds;
use crate::suspend::SuspendError;
use crate::threads::{ThreadFacts, ThreadId};
use crate::walk::{StopReason, Summary};
use freezeframe_arch::Registers;

/// How a thread was held while its registers and stack were copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Stopped by a signal, all the while: for so many nanoseconds.
    Signal {
        /// From the start of its handler to the release.
        held_ns: u64,
    },
    /// Stopped by Mach's `thread_suspend`, all the while: for so many nanoseconds.
    Mach {
        /// From before the call that stopped it to the release.
        held_ns: u64,
    },
    /// Stopped by a helper that traced it, all the while, at one time with others: for so many nanoseconds.
    Ptrace {
        /// From before the call that stopped it to the release.
        held_ns: u64,
    },
    /// Not stopped: it waited in the kernel all the while. Of its registers only the stack pointer and the program counter
    /// are known; the others are zero.
    Peek,
    /// Stopped by a signal, but it went on before the copy was complete: the stack may be torn.
    Torn,
    /// Not held: it is the thread that captured.
    Itself,
    /// Not held, and so without registers and frames.
    Not(SuspendError),
}

/// One thread: what the kernel says of it, its registers, and which frames of the snapshot are its.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadCapture {
    /// Its id.
    pub thread: ThreadId,
    /// Whether it is the process's main thread.
    pub main: bool,
    /// What is known of it from before it was stopped, or from just after where stopping does not change that.
    pub facts: ThreadFacts,
    /// How it was held.
    pub held: Held,
    /// Why the next better way of reading it was not taken.
    pub not_better: Option<SuspendError>,
    /// Its registers, if it was held.
    pub registers: Option<Registers>,
    /// The end of its stack, exclusive; zero if that is not known.
    pub stack_end: u64,
    /// How many copies through the kernel its stack took.
    pub copies: u32,
    /// It had gone on by the time it was stopped: what was to be captured was over.
    pub moved: bool,
    /// The lock that it waits for, if it waits for one.
    pub lock: Option<LockWait>,
    /// What its frames are; see [`View::frames`](super::View::frames).
    pub summary: Summary,
    pub(super) first_frame: usize,
    /// It could not be read, and the helper is still to try.
    pub(super) left_for_helper: bool,
}

impl ThreadCapture {
    pub(super) const EMPTY: Self = Self {
        thread: ThreadId(0),
        main: false,
        facts: ThreadFacts::UNKNOWN,
        held: Held::Not(SuspendError::Gone),
        not_better: None,
        registers: None,
        stack_end: 0,
        copies: 0,
        moved: false,
        lock: None,
        summary: Summary {
            kept: 0,
            omitted_after: 0,
            omitted: 0,
            repeat: None,
            stop: StopReason::EndOfStack,
        },
        first_frame: 0,
        left_for_helper: false,
    };

    /// What is known of it now that its stack was copied.
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    pub(super) const fn note(&mut self, held: Held, registers: Registers, bounds: StackBounds, copies: u32) {
        self.held = held;
        self.registers = Some(registers);
        self.stack_end = if bounds.high == u64::MAX { 0 } else { bounds.high };
        self.copies = copies;
    }
}
