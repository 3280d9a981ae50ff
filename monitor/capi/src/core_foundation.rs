//! The main thread's CFRunLoop.

use crate::config::ff_monitor_config;
use crate::error::ff_monitor_error;
use crate::handle::{failed, ff_monitor, start};
use freezeframe_monitor::RunLoop;

/// Watches the main thread's CFRunLoop in the common modes, from any thread. Apple's systems only.
///
/// # Errors
/// As of `ff_monitor_start`.
///
/// # Safety
/// `config` is null or valid; `monitor` is null or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_monitor_start_main_run_loop(
    config: *const ff_monitor_config,
    monitor: *mut *mut ff_monitor,
) -> ff_monitor_error {
    // SAFETY: as the caller promises.
    unsafe {
        start(config, monitor, |builder, _| {
            builder.watch_core_foundation(&RunLoop::main(), &[]).map_err(failed)
        })
    }
}
