//! A semaphore of Mach's.

use crate::clock;
use mach2::clock_types::mach_timespec_t;
use mach2::kern_return::{KERN_OPERATION_TIMED_OUT, KERN_SUCCESS};
use mach2::mach_types::semaphore_t;
use mach2::semaphore::{
    semaphore_create, semaphore_destroy, semaphore_signal, semaphore_timedwait, semaphore_wait,
};
use mach2::sync_policy::SYNC_POLICY_FIFO;
use mach2::traps::mach_task_self;
use std::sync::atomic::{AtomicBool, Ordering};

/// A binary semaphore: [`post`](Self::post) leaves one permit at most, a wait takes it. Deadlines are absolute on the
/// uptime clock, so that waiting again after a spurious wake-up does not make it later.
#[derive(Debug)]
pub struct Semaphore {
    /// Set by the post that signals and cleared by the wait which that signal ends. So Mach's own count is one at most.
    permit: AtomicBool,
    semaphore: semaphore_t,
}

impl Semaphore {
    /// Without a permit.
    ///
    /// # Panics
    /// The kernel is out of memory.
    pub fn new() -> Self {
        let mut semaphore = 0;
        // SAFETY: the address is the local variable's.
        let result = unsafe { semaphore_create(mach_task_self(), &mut semaphore, SYNC_POLICY_FIFO, 0) };
        assert_eq!(result, KERN_SUCCESS, "the kernel has no semaphore left");
        Self { permit: AtomicBool::new(false), semaphore }
    }

    /// Leaves a permit and wakes a waiter. With a permit there already it costs one exchange.
    pub fn post(&self) {
        if !self.permit.swap(true, Ordering::Release) {
            // SAFETY: the semaphore lives as long as `self`.
            unsafe { semaphore_signal(self.semaphore) };
        }
    }

    /// Waits for a permit.
    pub fn wait(&self) {
        // SAFETY: as in `post`. A signal handler of this thread ends a wait early.
        while unsafe { semaphore_wait(self.semaphore) } != KERN_SUCCESS {}
        self.take();
    }

    /// Waits for a permit until the uptime clock shows `deadline_ns`. Returns whether there was one.
    pub fn wait_until(&self, deadline_ns: u64) -> bool {
        loop {
            let left_ns = deadline_ns.saturating_sub(clock::now());
            // Without any time left this asks, and does not wait.
            let timeout = mach_timespec_t {
                tv_sec: u32::try_from(left_ns / 1_000_000_000).unwrap_or(u32::MAX),
                tv_nsec: (left_ns % 1_000_000_000) as i32,
            };
            // SAFETY: as in `post`.
            match unsafe { semaphore_timedwait(self.semaphore, timeout) } {
                KERN_SUCCESS => {
                    self.take();
                    return true;
                }
                KERN_OPERATION_TIMED_OUT if left_ns == 0 => return false,
                // Early: rounded, or a signal handler.
                _ => {}
            }
        }
    }

    /// A post between the end of the wait and this finds the permit still there: it is taken together with the first.
    fn take(&self) {
        self.permit.swap(false, Ordering::Acquire);
    }
}

impl Default for Semaphore {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and nobody waits: `self` is borrowed by nobody else.
        unsafe { semaphore_destroy(mach_task_self(), self.semaphore) };
    }
}
