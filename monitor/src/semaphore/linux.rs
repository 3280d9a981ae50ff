//! A futex.

use super::futex::{self, Awake};
use crate::sync::atomic::{AtomicU32, Ordering};

/// A binary semaphore: [`post`](Self::post) leaves one permit at most, a wait takes it. Deadlines are absolute on the
/// monotonic clock, so that waiting again after a spurious wake-up does not make it later.
#[derive(Debug, Default)]
pub struct Semaphore {
    permit: AtomicU32,
}

impl Semaphore {
    /// Without a permit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Leaves a permit and wakes a waiter. Without a waiter to wake it costs one exchange.
    pub fn post(&self) {
        if self.permit.swap(1, Ordering::Release) == 0 {
            futex::wake(&self.permit);
        }
    }

    /// Waits for a permit.
    pub fn wait(&self) {
        while !self.take() {
            futex::wait(&self.permit, 0, None);
        }
    }

    /// Waits for a permit until the monotonic clock shows `deadline_ns`. Returns whether there was one.
    pub fn wait_until(&self, deadline_ns: u64) -> bool {
        loop {
            if self.take() {
                return true;
            }
            if futex::wait(&self.permit, 0, Some(deadline_ns)) == Awake::TimedOut {
                return self.take();
            }
        }
    }

    fn take(&self) -> bool {
        self.permit.swap(0, Ordering::Acquire) == 1
    }
}
