//! Why a thread was not suspended, or not in a certain way.

/// Why a thread was not suspended, or not in a certain way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SuspendError {
    /// Another thread of this process is capturing.
    Busy = 1,
    /// The thread has ended.
    Gone = 2,
    /// The thread blocks the signal, and did not unblock it in time.
    SignalBlocked = 3,
    /// The thread did not run its handler in time: it waits for a processor, or in an uninterruptible wait.
    NotInTime = 4,
    /// Somebody has replaced our signal handler.
    HandlerReplaced = 5,
    /// The kernel refused to send the signal.
    NotSent = 6,
    /// A thread does not suspend itself.
    Itself = 7,
    /// The time for the whole capture was used up before this thread's turn.
    OutOfTime = 8,
    /// Somebody has asked that the thread is never stopped; see [`exempt`](super::exempt).
    Exempt = 9,
    /// The kernel refused to stop the thread or to give its registers.
    Refused = 10,
    /// This system has no way to stop a thread (watchOS).
    Unsupported = 11,
    /// The caller of the capture has not allowed it.
    NotAllowed = 20,
    /// The thread runs: only who waits can be read without being stopped.
    Running = 21,
    /// The thread went on while it was read.
    Changed = 22,
    /// The thread was not stopped, and its stack cannot be walked from its stack pointer and its program counter alone.
    TwoRegisters = 23,
    /// `/proc` does not tell where the thread waits.
    Untold = 24,
    /// So little of the thread's stack is left that a signal could end the process.
    LittleStack = 25,
    /// Somebody else traces the thread or the process: a debugger.
    Traced = 26,
    /// Yama does not allow a process to trace its parent; see `Registration`.
    Yama = 27,
    /// The process may not be looked into (`PR_SET_DUMPABLE`).
    NotDumpable = 28,
    /// A filter of system calls, or an emulator, does not allow tracing.
    Forbidden = 29,
    /// The helper that traces could not be made.
    NoHelper = 30,
    /// The helper that traces has died.
    HelperDied = 31,
    /// The helper that traces took too long and was killed.
    HelperLate = 32,
    /// There is no memory for the stacks of all threads at one time.
    NoArena = 33,
    /// The threads could not be listed: no descriptor is left, or `/proc` is not mounted.
    Unlisted = 34,
    /// The thread waits in a system call that the stop would have ended, which the program would have noticed.
    WouldInterrupt = 35,
}

impl SuspendError {
    /// The error of that number, for reading what was stored.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Busy,
            2 => Self::Gone,
            3 => Self::SignalBlocked,
            4 => Self::NotInTime,
            5 => Self::HandlerReplaced,
            6 => Self::NotSent,
            7 => Self::Itself,
            8 => Self::OutOfTime,
            9 => Self::Exempt,
            10 => Self::Refused,
            11 => Self::Unsupported,
            20 => Self::NotAllowed,
            21 => Self::Running,
            22 => Self::Changed,
            23 => Self::TwoRegisters,
            24 => Self::Untold,
            25 => Self::LittleStack,
            26 => Self::Traced,
            27 => Self::Yama,
            28 => Self::NotDumpable,
            29 => Self::Forbidden,
            30 => Self::NoHelper,
            31 => Self::HelperDied,
            32 => Self::HelperLate,
            33 => Self::NoArena,
            34 => Self::Unlisted,
            35 => Self::WouldInterrupt,
            _ => return None,
        })
    }
}

impl SuspendError {
    /// The reason in words.
    ///
    /// # Signal safety
    /// Safe.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Busy => "another capture is going on",
            Self::Gone => "the thread has ended",
            Self::SignalBlocked => "the thread blocks the signal that stops it",
            Self::NotInTime => "the thread did not stop in time",
            Self::HandlerReplaced => "the signal's handler was replaced",
            Self::NotSent => "the signal could not be sent",
            Self::Itself => "a thread does not stop itself",
            Self::OutOfTime => "the time for the capture was used up",
            Self::Exempt => "the thread is exempt from being stopped",
            Self::Refused => "the kernel refused to stop the thread",
            Self::Unsupported => "this system cannot stop a thread",
            Self::NotAllowed => "the capture was not allowed to",
            Self::Running => "the thread was running",
            Self::Changed => "the thread went on while it was read",
            Self::TwoRegisters => "the stack cannot be walked from two registers",
            Self::Untold => "the kernel does not tell where the thread waits",
            Self::LittleStack => "a signal would not fit on the thread's stack",
            Self::Traced => "another tracer is attached",
            Self::Yama => "Yama does not allow tracing",
            Self::NotDumpable => "the process is not dumpable",
            Self::Forbidden => "tracing is forbidden here",
            Self::NoHelper => "the tracing helper could not be made",
            Self::HelperDied => "the tracing helper died",
            Self::HelperLate => "the tracing helper took too long",
            Self::NoArena => "there is no memory for all stacks at one time",
            Self::Unlisted => "the other threads could not be listed",
            Self::WouldInterrupt => "a stop would have ended its system call",
        }
    }
}

impl core::fmt::Display for SuspendError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for SuspendError {}
