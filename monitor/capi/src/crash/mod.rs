//! Reports of crashes.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(target_vendor = "apple")]
mod mach;

#[cfg(any(target_os = "linux", target_os = "android"))]
use linux::{install, protect};
#[cfg(target_vendor = "apple")]
use mach::{install, protect};

use crate::arguments::{optional_text, text};
use crate::error::ff_monitor_error;
use crate::error::guarded;
use std::ffi::c_char;

/// Installs handlers of SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP and SIGSYS, which write a record of the crash into the
/// file at `path` and then let the process die as it would have: for good, once for the process, early. Monitors may write to the
/// same file. The calling thread is protected. `app` and `version` may be null. Linux only.
///
/// # Errors
/// `FF_MONITOR_ERROR_FILE`, `FF_MONITOR_ERROR_ALREADY`, `FF_MONITOR_ERROR_SYSTEM`, `FF_MONITOR_ERROR_UNSUPPORTED` on other systems.
///
/// # Safety
/// All are null or texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_crash_install(
    path: *const c_char,
    app: *const c_char,
    version: *const c_char,
) -> ff_monitor_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        let (path, app, version) = unsafe { (text(path)?, optional_text(app)?, optional_text(version)?) };
        install(path, app.unwrap_or(""), version.unwrap_or(""))
    })
}

/// Gives the calling thread an alternate stack for good, so that an overflow of its own one is reported. Linux only.
#[unsafe(no_mangle)]
pub extern "C" fn ff_crash_protect_thread() -> ff_monitor_error {
    guarded(protect)
}
