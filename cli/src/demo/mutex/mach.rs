//! Apple's systems have no such wait: it is tried again and again, and who does so is seen to sleep.

use std::time::{Duration, Instant};

/// # Safety
/// It is an initialised mutex.
pub(super) unsafe fn lock_within(mutex: *mut libc::pthread_mutex_t, time: Duration) -> bool {
    let begun = Instant::now();
    loop {
        // SAFETY: as for this function.
        if unsafe { libc::pthread_mutex_trylock(mutex) } == 0 {
            return true;
        }
        if begun.elapsed() > time {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
