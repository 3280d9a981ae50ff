//! How long a thread is waited for and held, and how that ends.

/// How a suspension ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The thread was held all the while.
    Whole {
        /// For how long, in nanoseconds: on Linux from the start of its handler, on Mach from before the call that stops
        /// it, to the release.
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
    /// The time after which a held thread goes on by itself, counted from the end of the time to stop: a thread that
    /// stops at once may stand for the sum of both.
    pub hold_at_most_ns: u64,
}

impl Patience {
    /// 20 ms to stop, 100 ms to be held.
    pub const DEFAULT: Self = Self { stop_within_ns: 20_000_000, hold_at_most_ns: 100_000_000 };
}
