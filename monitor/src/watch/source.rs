//! What both strategies have in common.

use super::expected::Expectations;
use crate::detect::Reading;
use crate::hooks::Crumbs;
use crate::semaphore::Semaphore;
use crate::subject::Subject;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use freezeframe_report::encode::Strategy;
use freezeframe_report::layout::Outcome;
use freezeframe_unwind::threads::ThreadId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// What a strategy sees of the loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched {
    pub(crate) reading: Reading,
    /// The last activity's value; zero if the strategy does not know any.
    pub(crate) activity: u8,
    /// When the loop last came back from a wait, or now if it waits; none if the strategy cannot tell.
    pub(crate) waited_ns: Option<u64>,
    /// How many runs of the loop are nested in each other; zero if the strategy does not know.
    pub(crate) depth: u32,
    /// Whether the loop waits although it seems busy, as it says itself; none if it does not say.
    pub(crate) waits: Option<bool>,
}

/// A strategy, as the watcher uses it.
pub(crate) trait Source: Send {
    /// Looks at the loop, and does what must be done at each look.
    fn read(&mut self, now_ns: u64) -> Watched;
    /// Whether the loop has not turned since `watched`. Asked while the loop's thread is held: no locks, no allocation.
    fn unchanged(&self, watched: &Watched) -> bool;
    /// Asks to be woken when the loop leaves its wait. False if it has done so already, or if that cannot be had.
    fn park(&mut self, watched: &Watched) -> bool;
    /// The process that is watched.
    fn subject(&self) -> Subject {
        Subject::Own
    }
    /// The watcher has seen to what the last reading led to, and may have stopped the thread meanwhile.
    fn looked(&mut self) {}
    /// How a freeze ends that went on at the last look, now that nobody looks any more.
    fn outcome(&self) -> Outcome {
        Outcome::Unknown
    }
    /// The thread that is watched.
    fn thread(&self) -> ThreadId;
    /// Which strategy this is.
    fn strategy(&self) -> Strategy;
}

/// What a monitor's owner says to its watcher.
#[derive(Debug, Default)]
pub(crate) struct Control {
    pub(crate) wake: Semaphore,
    pub(crate) stop: AtomicBool,
    /// How many pauses are in force.
    pub(crate) pauses: AtomicU32,
    /// How many pauses have ended, and when the last one did.
    pub(crate) resumptions: AtomicU64,
    pub(crate) resumed_ns: AtomicU64,
    pub(crate) interval_ns: AtomicU64,
    pub(crate) misses: AtomicU32,
    pub(crate) wakeups: AtomicU64,
    pub(crate) late_ticks: AtomicU64,
    pub(crate) freezes: AtomicU64,
    /// An `AppState`.
    pub(crate) app_state: AtomicU8,
    /// What the program expects to block for.
    pub(crate) expected: Expectations,
    /// What happened last, as the program told it.
    pub(crate) crumbs: Mutex<Crumbs>,
    pub(crate) counted: AtomicU64,
    pub(crate) capped: AtomicU64,
    pub(crate) filtered: AtomicU64,
    pub(crate) false_alarms: AtomicU64,
    pub(crate) never_idle: AtomicU64,
    pub(crate) cpu_high: AtomicU64,
    pub(crate) unheard: AtomicU64,
    pub(crate) panicked: AtomicU64,
    /// Nobody sees the loop any more.
    pub(crate) blind: AtomicBool,
}

impl Control {
    /// Calls a closure of the program's. None if it panics, which is counted: it is not to be called again.
    pub(crate) fn call<T>(&self, closure: impl FnOnce() -> T) -> Option<T> {
        let result = catch_unwind(AssertUnwindSafe(closure));
        if result.is_err() {
            self.panicked.fetch_add(1, Ordering::Relaxed);
        }
        result.ok()
    }

    pub(crate) fn pause(&self) {
        self.pauses.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn resume(&self, now_ns: u64) {
        // In this order: a watcher that sees no pause any more sees a fresh start too.
        self.resumed_ns.store(now_ns, Ordering::Release);
        self.resumptions.fetch_add(1, Ordering::AcqRel);
        self.pauses.fetch_sub(1, Ordering::AcqRel);
        self.wake.post();
    }

    /// A strategy's reading with the pauses worked in: a paused loop is not busy, and a resumed one starts afresh.
    pub(crate) fn with_pauses(&self, reading: Reading) -> Reading {
        // First: what is read of resumptions afterwards is not older.
        let paused = self.pauses.load(Ordering::Acquire) > 0;
        Reading {
            epoch: (reading.epoch.0, self.resumptions.load(Ordering::Acquire)),
            busy: reading.busy && !paused,
            since_ns: reading.since_ns.max(self.resumed_ns.load(Ordering::Acquire)),
            ..reading
        }
    }
}
