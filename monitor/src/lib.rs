//! Notices that a run loop has stopped turning, takes the stacks while the freeze is still going on, and leaves a report
//! in a file that survives a kill.
//!
//! ```text
//! the loop's thread ──transition──▶ Beacon ◀──reads── watcher ──reading──▶ Detector ──verdict──▶ Recorder ─▶ file
//!                                                        │                (pure)                 │  ▲
//!                                                        └─silent─▶ Sampler ─▶ samples, cause ───┼──┘
//!                                                                                                └─▶ hooks' thread ─▶ program
//! ```
//!
//! Words: an *activity* is what a run loop is about to do; the *beacon* is what the loop stores at each transition; the
//! *watcher* is our thread; a *tick* is one of its waits; a *miss* is a tick in which a busy loop did not turn; a *freeze*
//! is so many misses in a row.
//!
//! On Linux the module `crash` reports crashes into the same file.
//!
//! Watching a loop by its activities:
//!
//! ```
//! use freezeframe_monitor::{Activity, Monitor};
//!
//! // On the loop's thread:
//! let (monitor, beacon) = Monitor::builder("main").watch_run_loop()?;
//! # let mut work = vec![1, 2, 3].into_iter();
//! beacon.transition(Activity::Entry);
//! loop {
//!     beacon.transition(Activity::BeforeWaiting);
//!     let Some(_event) = work.next() else { break };
//!     beacon.transition(Activity::AfterWaiting);
//!     // … handle the event …
//! }
//! beacon.transition(Activity::Exit);
//! monitor.stop();
//! # Ok::<(), freezeframe_monitor::StartError>(())
//! ```
//!
//! A CFRunLoop tells its activities by itself: `Builder::watch_core_foundation`, on Apple's systems, and elsewhere with the
//! feature `core-foundation`. So does a main context of GLib's: `Builder::watch_glib`, with the feature `glib`. An async runtime
//! of one thread has hooks for it: [`Beacon::park_hooks`]. Of a loop that calls a handler, such as winit's, the handler tells:
//!
//! ```
//! # use freezeframe_monitor::{Activity, Beacon};
//! # struct Program { beacon: Beacon }
//! // In the program's `ApplicationHandler`:
//! impl Program {
//!     fn new_events(&mut self) {
//!         self.beacon.transition(Activity::AfterWaiting);
//!     }
//!
//!     fn about_to_wait(&mut self) {
//!         // … what the program does before it waits …
//!         self.beacon.transition(Activity::BeforeWaiting);
//!     }
//! }
//! ```
//!
//! Such a handler does not see a loop that the system runs inside one of its callbacks: see [`Monitor::pause`].

mod activity;
mod builder;
mod capture;
mod cause;
mod clock;
#[cfg(any(target_vendor = "apple", feature = "core-foundation"))]
mod core_foundation;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub mod crash;
mod detect;
mod ending;
mod episode;
mod facts;
mod files;
mod freeze;
#[cfg(feature = "glib")]
mod glib;
mod hooks;
pub mod leaks;
mod monitor;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod outside;
mod per_process;
mod pressure;
mod record;
mod recover;
mod registry;
mod sampler;
mod samples;
mod semaphore;
mod stacks;
mod subject;
mod sync;
mod track;
pub mod vitals;
mod watch;

pub use activity::Activity;
pub use builder::{Builder, StartError};
#[cfg(any(target_vendor = "apple", feature = "core-foundation"))]
pub use core_foundation::RunLoop;
pub use detect::{Detector, Next, Reading, Step, Threshold, Verdict};
pub use episode::SeverityLimits;
pub use freeze::{Candidate, Freeze, Phase};
pub use freezeframe_report::encode::{AppState, Cause, Kind, Severity};
#[cfg(feature = "glib")]
pub use glib::MainContext;
pub use hooks::Values;
pub use monitor::{Expectation, Monitor, Pause, Statistics};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use outside::SharedBoard;
pub use recover::recover;
pub use semaphore::Semaphore;
pub use watch::{Beacon, Ping, PingTarget, Turn};
