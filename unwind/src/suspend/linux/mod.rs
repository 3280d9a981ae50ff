//! Suspension on Linux: by a signal handshake.
//!
//! ```text
//! capturer                      word                     target (in the signal handler)
//! ────────                      ────                     ──────
//! take the session's lock       IDLE
//! write target, deadline
//! store                    ──▶  REQUEST
//! tgkill ──────────────────────────────────────────────▶ is it mine, for me?
//! wait to a deadline            FILLING  ◀── CAS         copy the registers
//!                               PARKED   ◀── CAS, wake
//! copy the stack                                         wait, to a deadline of its own
//! CAS, wake                ──▶  RELEASED                 return
//!                               EXPIRED  ◀── CAS         … or at the deadline, whatever the capturer does
//! ```
//!
//! The word holds a generation beside the state, so that no step can be taken for another round's. A request that was
//! not heard in time is withdrawn by `CAS REQUEST → IDLE`; one that is being filled is marked `ABANDONED`, and its
//! target says when it is done with the registers. A late or stray signal finds no request for its thread and returns.

mod handshake;
#[cfg_attr(not(test), allow(dead_code))]
mod peek;
#[cfg_attr(not(test), allow(dead_code))]
mod ptrace;
mod signal;

pub(crate) use handshake::install;
pub use handshake::{Session, Suspended, Suspender};
pub use ptrace::Registration;

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
        })
    }
}

impl core::error::Error for SuspendError {}

/// How a suspension ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The thread was held all the while.
    Whole {
        /// For how long, in nanoseconds: from the start of its handler to the release.
        held_ns: u64,
    },
    /// The thread's own deadline passed before the release: what was copied of its stack may be torn.
    Torn,
}

/// How long to wait for a thread, and how long it may be held, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The time that a thread has to stop. It is not held in this time.
    pub stop_within_ns: u64,
    /// The time after which a held thread goes on by itself.
    pub hold_at_most_ns: u64,
}

impl Patience {
    /// 20 ms to stop, 100 ms to be held.
    pub const DEFAULT: Self = Self { stop_within_ns: 20_000_000, hold_at_most_ns: 100_000_000 };
}
