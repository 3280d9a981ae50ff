//! The two observers, which tell the beacon of the loop's activities.

use super::run_loop::{Modes, RunLoop};
use crate::activity::Activity;
use crate::watch::{Beacon, BeaconShared};
use objc2_core_foundation::{
    CFIndex, CFRetained, CFRunLoopActivity, CFRunLoopObserver, CFRunLoopObserverContext,
};
use std::ffi::c_void;
use std::sync::Arc;

/// Both observers, in the loop until this is dropped, which may be on any thread.
#[derive(Debug)]
pub(super) struct Observers {
    run_loop: RunLoop,
    modes: Modes,
    first: CFRetained<CFRunLoopObserver>,
    last: CFRetained<CFRunLoopObserver>,
}

// SAFETY: here the observers are only added and removed, which run loops allow on any thread; releasing one for the last
// time releases a `LoopBeacon`, which may be done on any thread. The modes' names are never changed.
unsafe impl Send for Observers {}

impl Observers {
    /// What the first of all observers tells: the work of the others belongs to what comes after it.
    const FIRST: CFRunLoopActivity = CFRunLoopActivity::Entry
        .union(CFRunLoopActivity::BeforeTimers)
        .union(CFRunLoopActivity::BeforeSources)
        .union(CFRunLoopActivity::AfterWaiting);
    /// What the last one tells: the work of the others belongs to what has come before it.
    const LAST: CFRunLoopActivity = CFRunLoopActivity::BeforeWaiting.union(CFRunLoopActivity::Exit);

    pub(super) fn add(run_loop: &RunLoop, extra_modes: &[&str], shared: Arc<BeaconShared>) -> Self {
        let beacon = Arc::new(LoopBeacon(Beacon::new(shared)));
        let first = observer(Self::FIRST, CFIndex::MIN, &beacon);
        let last = observer(Self::LAST, CFIndex::MAX, &beacon);
        let modes = Modes::with(extra_modes);
        // In this order: an Exit without its Entry is borne, an Entry without its Exit would keep the count too high.
        run_loop.add_observer(&last, &modes);
        run_loop.add_observer(&first, &modes);
        Self { run_loop: run_loop.clone(), modes, first, last }
    }

    /// Whether the loop is being run, in a mode in which they see it.
    pub(super) fn are_in_current_mode(&self) -> bool {
        self.run_loop.runs_with(&self.last)
    }
}

impl Drop for Observers {
    /// Does not invalidate them: that would release the beacon at once, even under a callback. Removed, they live on until
    /// the loop is through with them.
    fn drop(&mut self) {
        self.run_loop.remove_observer(&self.first, &self.modes);
        self.run_loop.remove_observer(&self.last, &self.modes);
    }
}

/// The beacon, as the callbacks see it.
struct LoopBeacon(Beacon);

// SAFETY: only `observe` uses the beacon, and a loop calls its observers on its own thread only. To drop it on another one
// is sound: the last reference is gone then, and with it every callback.
unsafe impl Send for LoopBeacon {}
// SAFETY: as above.
unsafe impl Sync for LoopBeacon {}

fn observer(
    activities: CFRunLoopActivity,
    order: CFIndex,
    beacon: &Arc<LoopBeacon>,
) -> CFRetained<CFRunLoopObserver> {
    let mut context = CFRunLoopObserverContext {
        version: 0,
        info: Arc::as_ptr(beacon).cast_mut().cast(),
        retain: Some(retain),
        release: Some(release),
        copyDescription: None,
    };
    // SAFETY: the context is copied, and its pointer retained; the callback takes what the context holds.
    let made =
        unsafe { CFRunLoopObserver::new(None, activities.0, true, order, Some(observe), &mut context) };
    made.expect("CoreFoundation has memory for an observer")
}

unsafe extern "C-unwind" fn retain(info: *const c_void) -> *const c_void {
    // SAFETY: `info` is from `Arc::as_ptr`, and the caller holds a reference.
    unsafe { Arc::increment_strong_count(info.cast::<LoopBeacon>()) };
    info
}

unsafe extern "C-unwind" fn release(info: *const c_void) {
    // SAFETY: gives back what `retain` has taken.
    unsafe { Arc::decrement_strong_count(info.cast::<LoopBeacon>()) };
}

unsafe extern "C-unwind" fn observe(
    _: *mut CFRunLoopObserver,
    activity: CFRunLoopActivity,
    info: *mut c_void,
) {
    // SAFETY: the observer holds a reference to the beacon, and the loop one to the observer while it calls.
    let beacon = unsafe { &*info.cast::<LoopBeacon>().cast_const() };
    if let Some(activity) = u8::try_from(activity.0).ok().and_then(Activity::from_code) {
        beacon.0.transition(activity);
    }
}
