//! A futex.

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::Timespec;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

/// A binary semaphore: [`post`](Self::post) leaves one permit at most, a wait takes it. Deadlines are absolute on the
/// monotonic clock, so that waiting again after a spurious wake-up does not make it later.
#[derive(Debug, Default)]
pub struct Semaphore {
    permit: AtomicU32,
}

impl Semaphore {
    /// Without a permit.
    pub const fn new() -> Self {
        Self { permit: AtomicU32::new(0) }
    }

    /// Leaves a permit and wakes a waiter. Without a waiter to wake it costs one exchange.
    pub fn post(&self) {
        if self.permit.swap(1, Ordering::Release) == 0 {
            let _ = futex::wake(&self.permit, futex::Flags::PRIVATE, 1);
        }
    }

    /// Waits for a permit.
    pub fn wait(&self) {
        while !self.take() {
            let _ = self.sleep(None);
        }
    }

    /// Waits for a permit until the monotonic clock shows `deadline_ns`. Returns whether there was one.
    pub fn wait_until(&self, deadline_ns: u64) -> bool {
        let deadline = Timespec {
            tv_sec: (deadline_ns / 1_000_000_000) as i64,
            tv_nsec: (deadline_ns % 1_000_000_000) as i64,
        };
        loop {
            if self.take() {
                return true;
            }
            if self.sleep(Some(&deadline)) == Err(Errno::TIMEDOUT) {
                return self.take();
            }
        }
    }

    fn take(&self) -> bool {
        self.permit.swap(0, Ordering::Acquire) == 1
    }

    fn sleep(&self, deadline: Option<&Timespec>) -> Result<(), Errno> {
        const ANY: NonZeroU32 = NonZeroU32::MAX;
        futex::wait_bitset(&self.permit, futex::Flags::PRIVATE, 0, deadline, ANY)
    }
}
