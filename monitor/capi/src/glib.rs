//! GLib's main loop.

use crate::config::ff_monitor_config;
use crate::error::ff_monitor_error::{self, *};
use crate::handle::{failed, ff_monitor, start};
use freezeframe_monitor::MainContext;
use std::ffi::c_void;

/// Watches a `GMainContext`, the global default one if `context` is null, from its next turn on. To be called on the thread that
/// runs it.
///
/// # Errors
/// As of `ff_monitor_start`; `FF_MONITOR_ERROR_UNSUPPORTED` if the process has no GLib loaded: nothing of it is linked.
///
/// # Safety
/// `config` is null or valid; `context` is null or a `GMainContext`; `monitor` is null or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_monitor_start_glib(
    config: *const ff_monitor_config,
    context: *mut c_void,
    monitor: *mut *mut ff_monitor,
) -> ff_monitor_error {
    // SAFETY: as the caller promises.
    unsafe {
        start(config, monitor, |builder, _| {
            let context =
                if context.is_null() { MainContext::global() } else { MainContext::from_raw(context) };
            builder.watch_glib(&context.ok_or(FF_MONITOR_ERROR_UNSUPPORTED)?).map_err(failed)
        })
    }
}
