//! GLib's main loop, watched by two sources that are never ready.
//!
//! ```text
//!              ┌ first ── begins to look for work: BeforeTimers · has waited: AfterWaiting ─┐
//! GMainContext ┤                                                                            ├─▶ beacon
//!              └ last ─── nobody has work: BeforeWaiting ───────────────────────────────────┘
//! ```
//!
//! A context asks its sources in the order of their priorities whether they are ready, polls, asks again, and dispatches. As
//! soon as one is ready, those of a lower priority are not asked, and the poll does not wait. So the source of the lowest
//! priority is asked exactly if the loop is about to wait, and a loop that always has work to do never looks idle.
//!
//! The context's poll function would show its waits, too, and is left alone: it knows neither its context nor any data of
//! ours, others replace it, and programs that drive a context by themselves (`g_main_context_prepare`, `query`, `check`) do
//! not call it. Sources see all of these.
//!
//! Nested runs need no Entry and no Exit: a callback that has run a loop goes on after the last thing that this loop has told,
//! which is that it works. GLib does not tell when a run ends, either: the depth of nesting is that of the last turn, and time
//! after the loop has been left counts, unless the monitor is stopped or paused.
//!
//! A program that never lets its loop wait (`g_main_context_iteration` with `FALSE`, again and again) seems to wait for as long
//! as its polls take: for microseconds, which the watcher does not take for waits.
//!
//! GLib is looked up in the process; nothing is linked.

mod library;
mod sources;

use crate::builder::{Builder, StartError};
use crate::monitor::Monitor;
use crate::watch::source::{Source, Watched};
use crate::watch::{BeaconShared, Control};
use freezeframe_report::encode::Strategy;
use freezeframe_unwind::threads::{ThreadId, current};
use library::{Library, RawContext};
use sources::Sources;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

/// A `GMainContext` of GLib's. It may be used on every thread.
#[derive(Debug)]
pub struct MainContext {
    raw: NonNull<RawContext>,
    library: Library,
}

// SAFETY: contexts may be shared, and their count of references is atomic.
unsafe impl Send for MainContext {}
// SAFETY: as above.
unsafe impl Sync for MainContext {}

impl MainContext {
    /// The global default context, which the main loops of most programs run. None if the process has no GLib loaded.
    pub fn global() -> Option<Self> {
        let library = Library::find()?;
        // SAFETY: makes the context if need be, and keeps it for good.
        Self::referring_to(unsafe { (library.context_default)() }, library)
    }

    /// Any context, to which this adds a reference. None if it is null, or the process has no GLib loaded.
    ///
    /// # Safety
    /// It is null, or a context that lives until this returns.
    pub unsafe fn from_raw(context: *mut c_void) -> Option<Self> {
        Self::referring_to(context, Library::find()?)
    }

    fn referring_to(context: *mut RawContext, library: Library) -> Option<Self> {
        let raw = NonNull::new(context)?;
        // SAFETY: a context, which lives.
        unsafe { (library.context_ref)(raw.as_ptr()) };
        Some(Self { raw, library })
    }
}

impl Clone for MainContext {
    fn clone(&self) -> Self {
        // SAFETY: a reference is held.
        unsafe { (self.library.context_ref)(self.raw.as_ptr()) };
        Self { ..*self }
    }
}

impl Drop for MainContext {
    fn drop(&mut self) {
        // SAFETY: gives back the reference of `referring_to`.
        unsafe { (self.library.context_unref)(self.raw.as_ptr()) };
    }
}

impl Builder {
    /// Watches a GLib main context, from its next turn on, in whatever run. The calling thread should be the one that runs it;
    /// if another one does, that is known as soon as it turns. The monitor may be stopped on any thread.
    ///
    /// A run of another context inside a callback is not seen: this one stands still meanwhile.
    ///
    /// ```no_run
    /// use freezeframe_monitor::{MainContext, Monitor};
    ///
    /// let context = MainContext::global().expect("the program uses GLib");
    /// let monitor = Monitor::builder("main")
    ///     .on_freeze(|freeze| eprintln!("{:?} after {:?}", freeze.phase, freeze.duration))
    ///     .watch_glib(&context)?;
    /// # drop(monitor);
    /// # Ok::<(), freezeframe_monitor::StartError>(())
    /// ```
    ///
    /// # Errors
    /// See [`StartError`]. Nothing is left behind then, but for a report file.
    pub fn watch_glib(self, context: &MainContext) -> Result<Monitor, StartError> {
        let control = Arc::new(Control::default());
        let shared = Arc::new(BeaconShared::new(current(), control.clone()));
        let sources = Sources::attach(context, &shared);
        self.start(Attached { shared, _sources: sources }, control)
    }
}

/// The beacon, and what tells it, for as long as the watcher watches.
#[derive(Debug)]
struct Attached {
    shared: Arc<BeaconShared>,
    _sources: Sources,
}

impl Source for Attached {
    fn read(&mut self, now_ns: u64) -> Watched {
        // Before each wait the last source says so: a context whose last word is another does not wait.
        Watched { waits: Some(false), ..self.shared.read(now_ns) }
    }

    fn unchanged(&self, watched: &Watched) -> bool {
        self.shared.unchanged(watched)
    }

    fn park(&mut self, watched: &Watched) -> bool {
        self.shared.park(watched)
    }

    fn thread(&self) -> ThreadId {
        self.shared.thread()
    }

    fn strategy(&self) -> Strategy {
        self.shared.strategy()
    }
}
