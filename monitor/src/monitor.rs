//! A running monitor.

use crate::builder::Builder;
use crate::clock;
use crate::registry::Registration;
use crate::watch::{Control, Source, Watcher};
use freezeframe_report::encode::AppState;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

/// Watches one loop until it is stopped or dropped.
#[derive(Debug)]
pub struct Monitor {
    control: Arc<Control>,
    watcher: ThreadId,
    /// Closed when the watcher has ended.
    ended: Mutex<Receiver<()>>,
}

/// What a monitor has cost and seen so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Freezes that were detected.
    pub freezes: u64,
    /// How often the watcher has woken up.
    pub wakeups: u64,
    /// Ticks that came too late to count.
    pub late_ticks: u64,
}

impl Monitor {
    /// Begins to set up a monitor of a part of the program, whose name goes into the reports.
    pub fn builder(component: &str) -> Builder {
        Builder::new(component)
    }

    pub(crate) fn start<S: Source + 'static>(
        watcher: Watcher<S>,
        control: Arc<Control>,
        registration: Registration,
    ) -> std::io::Result<Self> {
        let (alive, ended) = sync_channel(0);
        let thread = std::thread::Builder::new().name("freezeframe".into()).spawn(move || {
            watcher.run();
            // The loop may be watched anew as soon as anybody can know that this watcher has ended.
            drop(registration);
            drop(alive);
        })?;
        Ok(Self { control, watcher: thread.thread().id(), ended: Mutex::new(ended) })
    }

    /// Stops counting until the guard is dropped: while the program knows that its loop will not turn. Pauses add up.
    ///
    /// A freeze that goes on when the pause begins is closed with an unknown end.
    pub fn pause(&self) -> Pause {
        self.control.pause();
        Pause { control: self.control.clone() }
    }

    /// Changes what counts as a freeze, from the next tick on. An interval below 1 ms is taken as that, and no misses as
    /// one.
    pub fn set_threshold(&self, interval: Duration, misses: u32) {
        let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1_000_000);
        self.control.interval_ns.store(interval_ns, Ordering::Relaxed);
        self.control.misses.store(misses.max(1), Ordering::Relaxed);
    }

    /// Tells reports whether somebody looks at the program: to be called when that changes.
    pub fn set_app_state(&self, state: AppState) {
        self.control.app_state.store(state as u8, Ordering::Relaxed);
    }

    /// What it has cost and seen so far.
    pub fn statistics(&self) -> Statistics {
        let load = |number: &crate::sync::atomic::AtomicU64| number.load(Ordering::Relaxed);
        let control = &self.control;
        Statistics {
            freezes: load(&control.freezes),
            wakeups: load(&control.wakeups),
            late_ticks: load(&control.late_ticks),
        }
    }

    /// Stops watching. Returns when the watcher has ended, or after one timeout if it does not end: a callback that does
    /// not return keeps its own thread, but not the caller's. The loop may be frozen all the while. Stopping from the
    /// callback does not wait.
    pub fn stop(self) {}
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.control.stop.store(true, Ordering::Release);
        self.control.wake.post();
        if std::thread::current().id() != self.watcher {
            let patience = Duration::from_nanos(self.control.interval_ns.load(Ordering::Relaxed));
            let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = ended.recv_timeout(patience);
        }
    }
}

/// A pause of a monitor, until it is dropped. See [`Monitor::pause`].
#[derive(Debug)]
#[must_use = "the pause ends when this is dropped"]
pub struct Pause {
    control: Arc<Control>,
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.control.resume(clock::now());
    }
}
