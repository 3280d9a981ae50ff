//! Sleeping on a word.

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::Timespec;
use std::num::NonZeroU32;
use std::sync::atomic::AtomicU32;

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awake {
    /// Woken, or the word had another value, or a signal came.
    Maybe,
    /// The monotonic clock has reached the deadline.
    TimedOut,
}

/// Sleeps while `*word == expected`, until woken or until the monotonic clock reaches the deadline.
pub(super) fn wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) -> Awake {
    const ANY: NonZeroU32 = NonZeroU32::MAX;
    let deadline = deadline_ns
        .map(|ns| Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 });
    match futex::wait_bitset(word, futex::Flags::PRIVATE, expected, deadline.as_ref(), ANY) {
        Err(Errno::TIMEDOUT) => Awake::TimedOut,
        _ => Awake::Maybe,
    }
}

/// Wakes one thread that sleeps on the word.
pub(super) fn wake(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
}
