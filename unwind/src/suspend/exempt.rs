//! Threads that must never be stopped: real-time threads such as audio, and threads of a crash handler.
//!
//! Such a thread is listed in a snapshot with [`SuspendError::Exempt`](super::SuspendError) in the place of its stack.

use crate::threads::ThreadId;
use core::sync::atomic::{AtomicI32, Ordering};

/// How many threads can be exempt at a time.
pub const MAX_EXEMPT: usize = 64;

/// No thread has this id.
const FREE: i32 = 0;

static EXEMPT: [AtomicI32; MAX_EXEMPT] = [const { AtomicI32::new(FREE) }; MAX_EXEMPT];

/// A thread's exemption, until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Exemption(&'static AtomicI32);

impl Drop for Exemption {
    fn drop(&mut self) {
        self.0.store(FREE, Ordering::Release);
    }
}

/// Exempts a thread of this process. None if [`MAX_EXEMPT`] threads are exempt already.
///
/// ```
/// use freezeframe_unwind::{suspend::exempt, threads};
/// // At the start of an audio thread:
/// let exemption = exempt::exempt(threads::current());
/// # assert!(exemption.is_some());
/// ```
///
/// # Signal safety
/// Safe, as is dropping the exemption.
pub fn exempt(thread: ThreadId) -> Option<Exemption> {
    let claims = |slot: &&AtomicI32| {
        slot.compare_exchange(FREE, thread.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    EXEMPT.iter().find(claims).map(Exemption)
}

/// Whether a thread is exempt.
pub(crate) fn contains(thread: ThreadId) -> bool {
    EXEMPT.iter().any(|slot| slot.load(Ordering::Acquire) == thread.0)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_thread_is_exempt_until_the_guard_is_dropped_and_a_full_table_refuses() {
        let thread = ThreadId(-7);
        let exemption = exempt(thread);
        assert!(exemption.is_some() && contains(thread) && !contains(ThreadId(-8)));
        drop(exemption);
        assert!(!contains(thread));
        let all: Vec<_> = (0..MAX_EXEMPT as i32).map(|n| exempt(ThreadId(-100 - n))).collect();
        assert_eq!(all.iter().filter(|one| one.is_some()).count(), MAX_EXEMPT);
        assert!(exempt(thread).is_none());
        drop(all);
        assert!(exempt(thread).is_some());
    }
}
