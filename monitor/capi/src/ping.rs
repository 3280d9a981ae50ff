//! Loops of which only the queue can be reached.

use crate::config::{Context, ff_monitor_config};
use crate::error::ff_monitor_error::{self, *};
use crate::error::guarded;
use crate::handle::{failed, ff_monitor, of, start};
use freezeframe_monitor::{Ping, PingTarget};
use freezeframe_unwind::threads::{ThreadId, current};
use std::ffi::c_void;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Posts work to the loop: in its turn it calls `ff_monitor_answer(monitor, ping)`. Called on the monitor's thread, perhaps before
/// the function that starts the monitor has returned; must not wait for the loop.
pub type ff_ping_post =
    Option<unsafe extern "C" fn(context: *mut c_void, monitor: *mut ff_monitor, ping: u64)>;

/// Whether the loop waits for events right now: not 0. Called on the monitor's thread.
pub type ff_ping_is_waiting = Option<unsafe extern "C" fn(context: *mut c_void) -> i32>;

struct Target {
    handle: &'static ff_monitor,
    post: unsafe extern "C" fn(*mut c_void, *mut ff_monitor, u64),
    is_waiting: ff_ping_is_waiting,
    context: Context,
}

impl PingTarget for Target {
    fn post(&mut self, ping: Ping) {
        let number = self.handle.pings.fetch_add(1, Ordering::AcqRel) + 1;
        *self.handle.ping.lock().unwrap_or_else(PoisonError::into_inner) = Some((number, ping));
        let handle = std::ptr::from_ref(self.handle).cast_mut();
        // SAFETY: the program promises a function that can be called with its own context.
        unsafe { (self.post)(self.context.get(), handle, number) }
    }

    fn is_waiting(&self) -> bool {
        // SAFETY: as above.
        self.is_waiting.is_some_and(|is_waiting| unsafe { is_waiting(self.context.get()) } != 0)
    }
}

/// Watches a loop by pings. `thread` is the id of the loop's thread (`gettid` on Linux, `mach_thread_self` on Apple's systems);
/// 0 is the calling one. `is_waiting` may be null: the loop is then pinged at every timeout. `context` is handed to both.
///
/// # Errors
/// As of `ff_monitor_start`; `FF_MONITOR_ERROR_ARGUMENT` for what can be no thread.
///
/// # Safety
/// `config` is null or valid; `monitor` is null or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_monitor_start_ping(
    config: *const ff_monitor_config,
    post: ff_ping_post,
    is_waiting: ff_ping_is_waiting,
    context: *mut c_void,
    thread: i32,
    monitor: *mut *mut ff_monitor,
) -> ff_monitor_error {
    let Some(post) = post else { return guarded(|| Err(FF_MONITOR_ERROR_NULL)) };
    if thread < 0 {
        return guarded(|| Err(FF_MONITOR_ERROR_ARGUMENT));
    }
    let thread = if thread == 0 { current() } else { ThreadId(thread) };
    let context = Context::new(context);
    // SAFETY: as the caller promises.
    unsafe {
        start(config, monitor, |builder, handle| {
            builder.watch_by_ping(Target { handle, post, is_waiting, context }, thread).map_err(failed)
        })
    }
}

/// Answers a ping, on the loop's thread. One that was answered already, or is not the latest, is `FF_MONITOR_ERROR_STATE` and
/// harms nobody.
///
/// # Safety
/// `monitor` is null or from a function that starts one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_monitor_answer(monitor: *mut ff_monitor, ping: u64) -> ff_monitor_error {
    guarded(|| {
        let mut open = of(monitor)?.ping.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = open.take_if(|(number, _)| *number == ping);
        drop(open);
        asked.ok_or(FF_MONITOR_ERROR_STATE)?.1.answer();
        Ok(())
    })
}
