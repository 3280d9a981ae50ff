//! Pings through a source in the loop's common modes.
//!
//! A source, and not the main queue, which no loop serves that was started from one of its blocks. And not a run-loop
//! block: that would need the runtime of blocks, and every ping would allocate; a source that is signalled twice is
//! performed once.

use super::run_loop::{Modes, RunLoop};
use crate::watch::{Ping, PingTarget};
use objc2_core_foundation::{CFRetained, CFRunLoopSource, CFRunLoopSourceContext};
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

/// The source, in the loop until this is dropped, which may be on any thread.
#[derive(Debug)]
pub(super) struct Pings {
    run_loop: RunLoop,
    modes: Modes,
    source: CFRetained<CFRunLoopSource>,
    open: Arc<Open>,
}

// SAFETY: here the source is only signalled, added and removed, which may be done on any thread; what it holds is `Open`,
// which is `Send` and `Sync`. The modes' names are never changed.
unsafe impl Send for Pings {}

/// The ping that waits for the loop's turn. The lock is held for a move, on both sides.
type Open = Mutex<Option<Ping>>;

impl Pings {
    pub(super) fn add(run_loop: &RunLoop, extra_modes: &[&str]) -> Self {
        let open = Arc::<Open>::default();
        let mut context = CFRunLoopSourceContext {
            version: 0,
            info: Arc::as_ptr(&open).cast_mut().cast(),
            retain: Some(retain),
            release: Some(release),
            copyDescription: None,
            equal: None,
            hash: None,
            schedule: None,
            cancel: None,
            perform: Some(perform),
        };
        // SAFETY: the context is copied, and its pointer retained; the callback takes what the context holds.
        let source = unsafe { CFRunLoopSource::new(None, 0, &mut context) };
        let source = source.expect("CoreFoundation has memory for a source");
        let modes = Modes::with(extra_modes);
        run_loop.add_source(&source, &modes);
        Self { run_loop: run_loop.clone(), modes, source, open }
    }
}

impl PingTarget for Pings {
    fn post(&mut self, ping: Ping) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(ping);
        self.source.signal();
        self.run_loop.wake_up();
    }

    fn is_waiting(&self) -> bool {
        self.run_loop.is_waiting()
    }
}

impl Drop for Pings {
    /// Does not invalidate it, for the same reason as the observers.
    fn drop(&mut self) {
        self.run_loop.remove_source(&self.source, &self.modes);
    }
}

unsafe extern "C-unwind" fn retain(info: *const c_void) -> *const c_void {
    // SAFETY: `info` is from `Arc::as_ptr`, and the caller holds a reference.
    unsafe { Arc::increment_strong_count(info.cast::<Open>()) };
    info
}

unsafe extern "C-unwind" fn release(info: *const c_void) {
    // SAFETY: gives back what `retain` has taken.
    unsafe { Arc::decrement_strong_count(info.cast::<Open>()) };
}

unsafe extern "C-unwind" fn perform(info: *mut c_void) {
    // SAFETY: the source holds a reference, and the loop one to the source while it calls.
    let open = unsafe { &*info.cast::<Open>().cast_const() };
    let ping = open.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(ping) = ping {
        ping.answer();
    }
}
