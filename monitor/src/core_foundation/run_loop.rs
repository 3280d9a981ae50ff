//! A loop that can be handed to any thread.

use freezeframe_unwind::threads::{ThreadId, current, list};
use objc2_core_foundation::{
    CFRetained, CFRunLoop, CFRunLoopObserver, CFRunLoopSource, CFString, kCFRunLoopCommonModes,
};

/// The CFRunLoop of a thread. It may be used on every thread.
#[derive(Clone, Debug)]
pub struct RunLoop {
    run_loop: CFRetained<CFRunLoop>,
    thread: ThreadId,
}

// SAFETY: CoreFoundation's run loops are thread-safe (Threading Programming Guide, "Run Loops"), but for running them,
// which always runs the calling thread's own. Nothing else is done with the loop here, and the count of references is
// atomic.
unsafe impl Send for RunLoop {}
// SAFETY: as above.
unsafe impl Sync for RunLoop {}

impl RunLoop {
    /// The calling thread's loop.
    ///
    /// # Panics
    /// CoreFoundation is out of memory: it makes a thread's loop when it is first asked for.
    pub fn current() -> Self {
        let run_loop = CFRunLoop::current().expect("every thread has a run loop");
        Self { run_loop, thread: current() }
    }

    /// The main thread's loop.
    ///
    /// # Panics
    /// As [`current`](Self::current); or the threads cannot be listed.
    pub fn main() -> Self {
        let run_loop = CFRunLoop::main().expect("the main thread has a run loop");
        let mut first = [ThreadId(0)];
        list(&mut first).expect("the threads of this process can be listed");
        Self { run_loop, thread: first[0] }
    }

    /// The thread whose loop it is.
    pub fn thread(&self) -> ThreadId {
        self.thread
    }

    /// Whether it waits for events right now, in whatever mode. For a moment also when it only asks whether there are any.
    pub fn is_waiting(&self) -> bool {
        self.run_loop.is_waiting()
    }

    /// Whether it is being run, in a mode that has this observer.
    pub(super) fn runs_with(&self, observer: &CFRunLoopObserver) -> bool {
        let mode = self.run_loop.current_mode();
        mode.is_some_and(|mode| self.run_loop.contains_observer(Some(observer), Some(&mode)))
    }

    pub(super) fn wake_up(&self) {
        self.run_loop.wake_up();
    }

    /// Adds an observer in those modes.
    pub(super) fn add_observer(&self, observer: &CFRunLoopObserver, modes: &Modes) {
        modes.each(|mode| self.run_loop.add_observer(Some(observer), mode));
    }

    /// Removes it. Callbacks that have begun, or that the loop has decided upon, are still made.
    pub(super) fn remove_observer(&self, observer: &CFRunLoopObserver, modes: &Modes) {
        modes.each(|mode| self.run_loop.remove_observer(Some(observer), mode));
    }

    /// Adds a source in those modes.
    pub(super) fn add_source(&self, source: &CFRunLoopSource, modes: &Modes) {
        modes.each(|mode| self.run_loop.add_source(Some(source), mode));
    }

    /// Removes it.
    pub(super) fn remove_source(&self, source: &CFRunLoopSource, modes: &Modes) {
        modes.each(|mode| self.run_loop.remove_source(Some(source), mode));
    }
}

/// The common modes, and others.
#[derive(Debug)]
pub(super) struct Modes(Vec<CFRetained<CFString>>);

impl Modes {
    pub(super) fn with(extra: &[&str]) -> Self {
        Self(extra.iter().map(|name| CFString::from_str(name)).collect())
    }

    fn each(&self, act: impl Fn(Option<&CFString>)) {
        // SAFETY: a constant of CoreFoundation's.
        act(unsafe { kCFRunLoopCommonModes });
        self.0.iter().for_each(|mode| act(Some(mode)));
    }
}
