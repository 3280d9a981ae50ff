//! CFRunLoop: watched by two observers, or by pings.
//!
//! ```text
//!                 ┌ first ── Entry, BeforeTimers, BeforeSources, AfterWaiting ─┐
//! CFRunLoop ──────┤                                                            ├─▶ Beacon ─▶ Checked ─▶ Detector
//!     │           └ last ─── BeforeWaiting, Exit ──────────────────────────────┘               ▲
//!     └──────────────────────────── does it wait, does it run? ────────────────────────────────┘
//! ```
//!
//! Observers run in ascending order at *every* activity. So that no other observer's work falls into what looks like
//! waiting, the first one in order tells that the loop has woken up and the last one that it is about to wait.
//!
//! Written on CoreFoundation's C functions alone: it needs neither the Objective-C runtime nor that of blocks, and also
//! runs on the open-source CoreFoundation. On Apple's systems it is always there; elsewhere by the feature
//! `core-foundation`, and the program then links CoreFoundation itself.

mod checked;
mod observers;
mod pings;
mod run_loop;

pub use run_loop::RunLoop;

use crate::builder::{Builder, StartError};
use crate::monitor::Monitor;
use crate::watch::{BeaconShared, Control, PingSource};
use checked::Checked;
use observers::Observers;
use pings::Pings;
use std::sync::Arc;

impl Builder {
    /// Watches a CFRunLoop by its activities: in the common modes, and in `extra_modes`.
    ///
    /// May be called on any thread, and the monitor may be stopped on any thread. A loop nested in a mode that is not
    /// watched cannot be seen at work, only at waiting: its waits are no freeze, but its callbacks count together until the
    /// next wait is seen. So name the modes that the program itself runs its loop in.
    ///
    /// ```no_run
    /// use freezeframe_monitor::{Monitor, RunLoop};
    ///
    /// let monitor = Monitor::builder("main")
    ///     .on_freeze(|freeze| eprintln!("{:?} after {:?}", freeze.phase, freeze.duration))
    ///     .watch_core_foundation(&RunLoop::main(), &["com.example.modal"])?;
    /// # drop(monitor);
    /// # Ok::<(), freezeframe_monitor::StartError>(())
    /// ```
    ///
    /// # Errors
    /// See [`StartError`]. Nothing is left behind then, but for a report file.
    pub fn watch_core_foundation(
        self,
        run_loop: &RunLoop,
        extra_modes: &[&str],
    ) -> Result<Monitor, StartError> {
        let control = Arc::new(Control::default());
        let shared = Arc::new(BeaconShared::new(run_loop.thread(), control.clone()));
        let observers = Observers::add(run_loop, extra_modes, shared.clone());
        self.start(Checked::new(shared, run_loop, Some(observers)), control)
    }

    /// Watches a CFRunLoop by pings in the common modes, and in `extra_modes`: without observers, but the start of a freeze
    /// is known to one timeout only, and the loop turns once in a timeout while it does not wait.
    ///
    /// # Errors
    /// See [`StartError`]. Nothing is left behind then, but for a report file.
    pub fn watch_core_foundation_by_ping(
        self,
        run_loop: &RunLoop,
        extra_modes: &[&str],
    ) -> Result<Monitor, StartError> {
        let control = Arc::new(Control::default());
        let pings = PingSource::new(Pings::add(run_loop, extra_modes), run_loop.thread(), control.clone());
        self.start(Checked::new(pings, run_loop, None), control)
    }
}
