//! Watching another process from outside: its main thread, by looking at it. The process gets no thread, no signal and no memory
//! of ours.
//!
//! ```text
//! /proc/PID/task/PID/{status, syscall} ──▶ look ──▶ progress?  ─┐
//!                          its stack ──▶ names ──▶ idle?  ◀─home ├─▶ Reading ─▶ Detector, Recorder as ever
//!                                                  (tables)      ┘
//! ```
//!
//! *Progress* is that the thread has gone to sleep again, or has woken up: the kernel counts both. A wait without progress is a
//! freeze unless it is the way in which programs idle, by the table in `idle`. A thread that computes without a wait is frozen
//! only if its program is one that idles: one that has no *home*, a wait that it comes back to, is no event loop.
//!
//! A program that has a library of ours loaded, which tells of its loop, is watched by that while the loop runs.

mod home;
mod idle;
mod look;
mod peek;
mod shared;
mod source;
mod stack;

pub use shared::SharedBoard;

use crate::builder::{Builder, StartError};
use crate::monitor::Monitor;
use crate::watch::Control;
use freezeframe_unwind::process::ProcessId;
use peek::PeekSource;
use source::OutsideSource;
use std::sync::Arc;

impl Builder {
    /// Watches the main thread of another process from outside: `docs/EMBEDDING.md` says what is seen. Of a child the caller waits for the end only when it has ended (a pidfd tells), since waiting takes away what the
    /// tracer waits for.
    ///
    /// A library that was loaded into the process may tell of its loop on a `board`: then that decides while the loop runs.
    ///
    /// [`cpu_high`](Self::cpu_high) is about the calling process all the same, and [`never_idle`](Self::never_idle) has no effect.
    ///
    /// # Errors
    /// See [`StartError`]: [`StartError::System`] if there is no such process, or if it may not be looked into.
    pub fn watch_process(
        self,
        process: ProcessId,
        board: Option<SharedBoard>,
    ) -> Result<Monitor, StartError> {
        let peek = PeekSource::new(process).map_err(StartError::System)?;
        let source = OutsideSource::new(peek, board, self.interval_ns());
        self.start(source, Arc::new(Control::default()))
    }
}
