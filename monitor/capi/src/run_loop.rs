//! Loops that tell what they are about to do.

use crate::config::ff_monitor_config;
use crate::error::ff_monitor_error::{self, *};
use crate::handle::{failed, ff_monitor, of, start};
use freezeframe_monitor::Activity;

/// What a loop is about to do, with the values of `CFRunLoopActivity`. A loop tells at least `FF_ACTIVITY_BEFORE_WAITING`, right
/// before it waits for events, and `FF_ACTIVITY_AFTER_WAITING`, right after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum ff_activity {
    /// A run of the loop begins, perhaps inside a callback of another run.
    FF_ACTIVITY_ENTRY = 1,
    /// About to handle timers.
    FF_ACTIVITY_BEFORE_TIMERS = 2,
    /// About to handle sources.
    FF_ACTIVITY_BEFORE_SOURCES = 4,
    /// About to wait.
    FF_ACTIVITY_BEFORE_WAITING = 32,
    /// Woken up, about to handle what has come.
    FF_ACTIVITY_AFTER_WAITING = 64,
    /// The run has ended.
    FF_ACTIVITY_EXIT = 128,
}

/// Watches the loop of the calling thread, which tells by `ff_monitor_transition` what it does.
///
/// # Errors
/// `FF_MONITOR_ERROR_ALREADY` if the loop is watched by another monitor, `FF_MONITOR_ERROR_FILE`, `FF_MONITOR_ERROR_ARGUMENT` for a
/// threshold that cannot be, `FF_MONITOR_ERROR_SYSTEM` if there can be no further thread.
///
/// # Safety
/// `config` is null or valid; `monitor` is null or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_monitor_start(
    config: *const ff_monitor_config,
    monitor: *mut *mut ff_monitor,
) -> ff_monitor_error {
    // SAFETY: as the caller promises.
    unsafe {
        start(config, monitor, |builder, handle| {
            let (monitor, beacon) = builder.watch_run_loop().map_err(failed)?;
            handle.beacon.set(beacon);
            Ok(monitor)
        })
    }
}

/// Tells what the loop is about to do: an `ff_activity`. On the loop's thread only. Costs a clock read and a few stores.
///
/// # Errors
/// `FF_MONITOR_ERROR_THREAD`, `FF_MONITOR_ERROR_ARGUMENT` for another number, `FF_MONITOR_ERROR_STATE` if the monitor watches in another
/// way.
///
/// # Safety
/// `monitor` is null or from a function that starts one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_monitor_transition(monitor: *mut ff_monitor, activity: i32) -> ff_monitor_error {
    let tell = || {
        let beacon = of(monitor)?.beacon.get()?;
        let activity = u8::try_from(activity).ok().and_then(Activity::from_code);
        beacon.transition(activity.ok_or(FF_MONITOR_ERROR_ARGUMENT)?);
        Ok(())
    };
    crate::error::guarded(tell)
}
