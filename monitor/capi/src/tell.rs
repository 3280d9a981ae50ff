//! What a program tells a monitor that runs.

use crate::arguments::{check_size, text};
use crate::error::ff_monitor_error::{self, *};
use crate::error::guarded;
use crate::handle::{ff_monitor, of};
use freezeframe_monitor::AppState;
use std::ffi::c_char;
use std::sync::PoisonError;
use std::time::Duration;

/// Stops counting until `ff_monitor_resume`: while the loop is known not to turn. Pauses add up.
///
/// # Safety
/// `monitor` is null or from a function that starts one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_monitor_pause(monitor: *mut ff_monitor) -> ff_monitor_error {
    guarded(|| {
        of(monitor)?.running(|running| {
            running.pauses.push(running.monitor.pause());
            Ok(())
        })
    })
}

/// Ends one pause. `FF_MONITOR_ERROR_STATE` if there is none.
///
/// # Safety
/// As of `ff_monitor_pause`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_monitor_resume(monitor: *mut ff_monitor) -> ff_monitor_error {
    guarded(|| of(monitor)?.running(|running| running.pauses.pop().map(drop).ok_or(FF_MONITOR_ERROR_STATE)))
}

/// Announces that the loop will not turn for up to so long from now on, and why: until `ff_monitor_expect_end` nothing is called a
/// freeze before that time. Expectations nest.
///
/// # Safety
/// As of `ff_monitor_pause`; `why` is null or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_monitor_expect(
    monitor: *mut ff_monitor,
    duration_ms: u64,
    why: *const c_char,
) -> ff_monitor_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        let why = unsafe { text(why) }?;
        of(monitor)?.running(|running| {
            let expectation = running.monitor.expect(Duration::from_millis(duration_ms), why);
            running.expectations.push(expectation);
            Ok(())
        })
    })
}

/// Ends the latest expectation. `FF_MONITOR_ERROR_STATE` if there is none.
///
/// # Safety
/// As of `ff_monitor_pause`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_monitor_expect_end(monitor: *mut ff_monitor) -> ff_monitor_error {
    guarded(|| {
        of(monitor)?.running(|running| running.expectations.pop().map(drop).ok_or(FF_MONITOR_ERROR_STATE))
    })
}

/// Sets a value that each later report of a freeze has: 16 names of 32 bytes, values of 128; what is longer is cut off.
/// `FF_MONITOR_ERROR_ARGUMENT` if the name is empty, `FF_MONITOR_ERROR_NOT_FOUND` if there is no room for another name.
///
/// # Safety
/// As of `ff_monitor_pause`; `name` and `value` are null or texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_monitor_set_value(
    monitor: *mut ff_monitor,
    name: *const c_char,
    value: *const c_char,
) -> ff_monitor_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        let (name, value) = unsafe { (text(name)?, text(value)?) };
        if name.is_empty() {
            return Err(FF_MONITOR_ERROR_ARGUMENT);
        }
        let mut values = of(monitor)?.values.lock().unwrap_or_else(PoisonError::into_inner);
        if values.set(name, value) { Ok(()) } else { Err(FF_MONITOR_ERROR_NOT_FOUND) }
    })
}

/// Leaves a breadcrumb: what the program does just now. The latest 16 are in each report; of each, 96 bytes.
///
/// # Safety
/// As of `ff_monitor_pause`; `words` is null or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_monitor_breadcrumb(
    monitor: *mut ff_monitor,
    words: *const c_char,
) -> ff_monitor_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        let words = unsafe { text(words) }?;
        of(monitor)?.running(|running| {
            running.monitor.breadcrumb(words);
            Ok(())
        })
    })
}

/// Tells reports whether somebody looks at the program. `state` is an `ff_app_state`; others are `FF_MONITOR_ERROR_ARGUMENT`.
///
/// # Safety
/// As of `ff_monitor_pause`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_monitor_set_app_state(monitor: *mut ff_monitor, state: i32) -> ff_monitor_error {
    guarded(|| {
        let monitor = of(monitor)?;
        let state = match state {
            0 => AppState::Unknown,
            1 => AppState::Foreground,
            2 => AppState::Background,
            _ => return Err(FF_MONITOR_ERROR_ARGUMENT),
        };
        monitor.running(|running| {
            running.monitor.set_app_state(state);
            Ok(())
        })
    })
}

/// What a monitor has cost and seen so far.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ff_statistics {
    /// `sizeof(ff_statistics)`, to be set by the caller.
    pub size: u32,
    /// 1 if a freeze would be noticed, unless the monitor is paused; 0 if the watcher has ended or is blind.
    pub watching: u32,
    /// Freezes that were detected, false alarms included.
    pub freezes: u64,
    /// Freezes whose loop waited for events after all.
    pub false_alarms: u64,
    /// Freezes that are counted in an earlier record of the same stack.
    pub counted: u64,
    /// How often the watcher has woken up.
    pub wakeups: u64,
    /// Ticks that came too late to count.
    pub late_ticks: u64,
    /// What the callback has not heard of: what waits while it is busy or hangs, and what found no place.
    pub unheard: u64,
    /// Freezes that have no record since the day's number was reached.
    pub capped: u64,
    /// Times in which the loop turned but never waited, if those are looked for.
    pub never_idle: u64,
    /// Zero.
    pub reserved: [u64; 2],
}

/// What the monitor has cost and seen so far.
///
/// # Safety
/// As of `ff_monitor_pause`; `statistics` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_monitor_statistics(
    monitor: *mut ff_monitor,
    statistics: *mut ff_statistics,
) -> ff_monitor_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        unsafe { check_size(statistics) }?;
        of(monitor)?.running(|running| {
            let now = running.monitor.statistics();
            let value = ff_statistics {
                size: size_of::<ff_statistics>() as u32,
                watching: u32::from(running.monitor.is_watching()),
                freezes: now.freezes,
                false_alarms: now.false_alarms,
                counted: now.counted,
                wakeups: now.wakeups,
                late_ticks: now.late_ticks,
                unheard: now.unheard,
                capped: now.capped,
                never_idle: now.never_idle,
                reserved: [0; 2],
            };
            // SAFETY: long enough, as was checked.
            unsafe { statistics.write(value) };
            Ok(())
        })
    })
}
