//! Why a thread was not suspended.

/// Why a thread was not suspended.
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
            _ => return None,
        })
    }
}

impl core::fmt::Display for SuspendError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
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
        })
    }
}

impl core::error::Error for SuspendError {}
