//! Linux: the kernel ends the wait.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// # Safety
/// It is an initialised mutex.
pub(super) unsafe fn lock_within(mutex: *mut libc::pthread_mutex_t, time: Duration) -> bool {
    let until = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + time;
    let until = libc::timespec { tv_sec: until.as_secs() as _, tv_nsec: until.subsec_nanos() as _ };
    // SAFETY: as for this function.
    unsafe { libc::pthread_mutex_timedlock(mutex, &until) == 0 }
}
