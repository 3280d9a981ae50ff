//! Whether the process ends: a loop that has stopped turning for that is not frozen.

use std::sync::atomic::{AtomicU32, Ordering};

/// The process that ends; zero: none does. A forked child goes on.
static ENDS: AtomicU32 = AtomicU32::new(0);

/// Called by the handler of a crash, which holds the thread that has crashed until its report is written. Signal-safe.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn begin() {
    ENDS.store(std::process::id(), Ordering::Release);
}

/// Whether the process ends.
pub(crate) fn has_begun() -> bool {
    let process = ENDS.load(Ordering::Acquire);
    process != 0 && process == std::process::id()
}
