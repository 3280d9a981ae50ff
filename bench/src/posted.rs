//! The classic design beside the beacon: a watcher that waits on a semaphore for 50 ms at most, and a loop that posts it
//! at each transition.

use crate::measure::{Cost, best_of, cost_of};
use rustix::time::{ClockId, clock_gettime};
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long the watcher waits for a post.
const TIMEOUT_NS: i64 = 50_000_000;

/// A semaphore of any make.
pub(crate) trait Posted: Sync {
    fn post(&self);
    /// Waits for a post, or [`TIMEOUT_NS`]. Whether there was one.
    fn wait(&self) -> bool;
}

impl Posted for freezeframe_monitor::Semaphore {
    fn post(&self) {
        self.post();
    }

    fn wait(&self) -> bool {
        let now = clock_gettime(ClockId::Monotonic);
        self.wait_until((now.tv_sec * 1_000_000_000 + now.tv_nsec + TIMEOUT_NS) as u64)
    }
}

/// The C library's semaphore.
pub(crate) struct PosixSemaphore(Box<UnsafeCell<libc::sem_t>>);

// SAFETY: a `sem_t` is made to be used by several threads, and it stays where it is.
unsafe impl Sync for PosixSemaphore {}

impl PosixSemaphore {
    pub(crate) fn new() -> Self {
        // SAFETY: plain bytes, set up below.
        let semaphore = Self(Box::new(UnsafeCell::new(unsafe { std::mem::zeroed() })));
        // SAFETY: not in use yet.
        unsafe { libc::sem_init(semaphore.0.get(), 0, 0) };
        semaphore
    }
}

impl Posted for PosixSemaphore {
    fn post(&self) {
        // SAFETY: set up by `new`.
        unsafe { libc::sem_post(self.0.get()) };
    }

    fn wait(&self) -> bool {
        let now = clock_gettime(ClockId::Realtime);
        let end = now.tv_nsec + TIMEOUT_NS;
        let deadline =
            libc::timespec { tv_sec: now.tv_sec + end / 1_000_000_000, tv_nsec: end % 1_000_000_000 };
        // SAFETY: set up by `new`; the deadline lives through the call.
        unsafe { libc::sem_timedwait(self.0.get(), &deadline) == 0 }
    }
}

impl Drop for PosixSemaphore {
    fn drop(&mut self) {
        // SAFETY: nobody waits: the watcher of `with_watcher` has been joined.
        unsafe { libc::sem_destroy(self.0.get()) };
    }
}

/// What a post costs that wakes the watcher from its wait, as each does in a loop that is not saturated.
pub(crate) fn waking_post(semaphore: &impl Posted, clock: Cost) -> Cost {
    /// The watcher is in the kernel by then, and its processor idle.
    const SETTLED: Duration = Duration::from_micros(20);
    const POSTS: u32 = 25;
    with_watcher(semaphore, |waits| {
        let mut earlier = 0;
        let mut one = || {
            while waits.load(Ordering::Acquire) == earlier {
                std::thread::yield_now();
            }
            earlier = waits.load(Ordering::Acquire);
            let settling = Instant::now();
            while settling.elapsed() < SETTLED {
                spin_loop();
            }
            let began = Instant::now();
            semaphore.post();
            began.elapsed().as_nanos() as f64 - clock.best_ns
        };
        best_of(200, || (0..POSTS).map(|_| one()).sum::<f64>() / f64::from(POSTS))
    })
}

/// What a post costs in a loop that does nothing but post: most find the watcher awake.
pub(crate) fn post_after_post(semaphore: &impl Posted) -> Cost {
    with_watcher(semaphore, |_| cost_of(|| semaphore.post()))
}

/// Calls `measure` while a thread waits and waits again on `semaphore`; it counts how often it has begun to.
fn with_watcher(semaphore: &impl Posted, measure: impl FnOnce(&AtomicU64) -> Cost) -> Cost {
    let (waits, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                waits.fetch_add(1, Ordering::Release);
                semaphore.wait();
            }
        });
        let cost = measure(&waits);
        stop.store(true, Ordering::Relaxed);
        cost
    })
}
