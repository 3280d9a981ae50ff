//! Monitors, as C holds them.

use crate::arguments::give;
use crate::config::{SharedValues, builder, ff_monitor_config};
use crate::error::ff_monitor_error::{self, *};
use crate::error::{because, guarded};
use freezeframe_monitor::{Beacon, Builder, Expectation, Monitor, Pause, Ping, StartError};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A monitor. It is never freed: what is done with one that was stopped is an error.
#[derive(Debug, Default)]
pub struct ff_monitor {
    running: Mutex<Option<Running>>,
    pub(crate) stopped: AtomicBool,
    pub(crate) beacon: LoopsBeacon,
    /// The question that waits for its answer, and its number.
    pub(crate) ping: Mutex<Option<(u64, Ping)>>,
    pub(crate) pings: AtomicU64,
    pub(crate) values: SharedValues,
    /// The one that was made before.
    kept_before: AtomicPtr<ff_monitor>,
}

/// What lives until the stop.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) monitor: Monitor,
    pub(crate) pauses: Vec<Pause>,
    pub(crate) expectations: Vec<Expectation>,
}

/// The beacon, which belongs to the loop's thread.
#[derive(Debug, Default)]
pub(crate) struct LoopsBeacon {
    /// `pthread_self` of the loop's thread; zero without a beacon. Written after the beacon.
    thread: AtomicU64,
    beacon: UnsafeCell<Option<Beacon>>,
}

// SAFETY: the beacon is touched on the loop's thread only, which is asked for each time; never dropped.
unsafe impl Sync for LoopsBeacon {}
// SAFETY: as above.
unsafe impl Send for LoopsBeacon {}

fn this_thread() -> u64 {
    // SAFETY: has no arguments and cannot fail.
    unsafe { libc::pthread_self() as u64 }
}

impl LoopsBeacon {
    /// To be called once, on the loop's thread, before others know the handle.
    pub(crate) fn set(&self, beacon: Beacon) {
        // SAFETY: nobody reads it before the thread is stored.
        unsafe { *self.beacon.get() = Some(beacon) };
        self.thread.store(this_thread(), Ordering::Release);
    }

    pub(crate) fn get(&self) -> Result<&Beacon, ff_monitor_error> {
        let thread = self.thread.load(Ordering::Acquire);
        if thread == 0 {
            return Err(FF_MONITOR_ERROR_STATE);
        }
        if thread != this_thread() {
            return Err(FF_MONITOR_ERROR_THREAD);
        }
        // SAFETY: this is the loop's thread, and the beacon was set before.
        unsafe { &*self.beacon.get() }.as_ref().ok_or(FF_MONITOR_ERROR_STATE)
    }
}

/// Keeps the handles reachable, as a list: they are no leak. Without a lock, which a forked child might find taken for good.
static HANDLES: AtomicPtr<ff_monitor> = AtomicPtr::new(std::ptr::null_mut());

fn keep(handle: &'static ff_monitor) {
    let _ = HANDLES.fetch_update(Ordering::AcqRel, Ordering::Acquire, |latest| {
        handle.kept_before.store(latest, Ordering::Relaxed);
        Some(std::ptr::from_ref(handle).cast_mut())
    });
}

/// Those that were started and not stopped; all others stay as they are.
pub(crate) fn of<'a>(monitor: *const ff_monitor) -> Result<&'a ff_monitor, ff_monitor_error> {
    // SAFETY: null, or from `start`, and never freed.
    let monitor = unsafe { monitor.as_ref() }.ok_or(FF_MONITOR_ERROR_NULL)?;
    if monitor.stopped.load(Ordering::Acquire) { Err(FF_MONITOR_ERROR_STOPPED) } else { Ok(monitor) }
}

impl ff_monitor {
    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the monitor, if it runs.
    pub(crate) fn running(
        &self,
        act: impl FnOnce(&mut Running) -> Result<(), ff_monitor_error>,
    ) -> Result<(), ff_monitor_error> {
        self.lock().as_mut().map_or(Err(FF_MONITOR_ERROR_STOPPED), act)
    }
}

/// Starts a monitor, which `watch` chooses the strategy of, and gives its handle to the caller.
///
/// # Safety
/// `config` is null or valid; `out` is null or can be written to.
pub(crate) unsafe fn start(
    config: *const ff_monitor_config,
    out: *mut *mut ff_monitor,
    watch: impl FnOnce(Builder, &'static ff_monitor) -> Result<Monitor, ff_monitor_error>,
) -> ff_monitor_error {
    guarded(|| {
        if out.is_null() {
            return Err(FF_MONITOR_ERROR_NULL);
        }
        let values = SharedValues::default();
        // SAFETY: as the caller promises.
        let builder = unsafe { builder(config, &values) }?;
        let handle: &'static ff_monitor = Box::leak(Box::new(ff_monitor { values, ..Default::default() }));
        keep(handle);
        let monitor = watch(builder, handle)?;
        *handle.lock() = Some(Running { monitor, pauses: Vec::new(), expectations: Vec::new() });
        // SAFETY: as the caller promises.
        unsafe { give(out, std::ptr::from_ref(handle).cast_mut()) }
    })
}

pub(crate) fn failed(error: StartError) -> ff_monitor_error {
    let code = match &error {
        StartError::AlreadyWatched => FF_MONITOR_ERROR_ALREADY,
        StartError::Threshold(_) => FF_MONITOR_ERROR_ARGUMENT,
        StartError::File(_) => FF_MONITOR_ERROR_FILE,
        _ => FF_MONITOR_ERROR_SYSTEM,
    };
    because(code, error)
}

/// Stops watching. The loop may be frozen all the while. Returns when the watcher has ended, or after one timeout. On any thread,
/// from the callback too. The handle stays valid, and every later call with it is `FF_MONITOR_ERROR_STOPPED`.
///
/// # Safety
/// `monitor` is null or from a function that starts one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_monitor_stop(monitor: *mut ff_monitor) -> ff_monitor_error {
    guarded(|| {
        let monitor = of(monitor)?;
        // Outside the lock: a callback that runs meanwhile may call functions of this handle.
        let running = monitor.lock().take();
        monitor.stopped.store(true, Ordering::Release);
        running.map(drop).ok_or(FF_MONITOR_ERROR_STOPPED)
    })
}
