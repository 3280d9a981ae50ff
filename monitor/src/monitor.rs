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
    /// The monitor's own threads.
    own: [Option<ThreadId>; 2],
    /// Closed when the watcher has ended.
    ended: Mutex<Receiver<()>>,
    /// Its end is this value's, whatever the watcher may still be doing: a closure of the program's that hangs must not keep the loop
    /// from being watched anew.
    _registration: Registration,
}

/// What a monitor has cost and seen so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Freezes that were detected, false alarms included.
    pub freezes: u64,
    /// Freezes whose loop waited for events after all.
    pub false_alarms: u64,
    /// Freezes that are counted in an earlier record of the same stack.
    pub counted: u64,
    /// What got no record, since the day had seen its share.
    pub capped: u64,
    /// What the program's filter did not want.
    pub filtered: u64,
    /// How often the loop turned for long without ever waiting.
    pub never_idle: u64,
    /// How often the process took much of the processors for long.
    pub cpu_high: u64,
    /// What the callback has not heard of: what waits while it is busy or hangs, and what found no place or came after it had
    /// panicked.
    pub unheard: u64,
    /// How many closures of the program's have panicked, and so are not called any more: hooks, and what asks the loop for a sign of
    /// life. See [`Monitor::is_watching`].
    pub panicked: u64,
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
        mut watcher: Watcher<S>,
        control: Arc<Control>,
        registration: Registration,
        hooks: Option<ThreadId>,
    ) -> std::io::Result<Self> {
        let (alive, ended) = sync_channel(0);
        let (runs, begun) = sync_channel(1);
        let thread = std::thread::Builder::new().name("freezeframe".into()).spawn(move || {
            let _blind = BlindAtTheEnd(watcher.control.clone());
            watcher.begin();
            let _ = runs.send(());
            watcher.run();
            drop(alive);
        })?;
        // A thread allocates while it begins. From here on it does not, and can watch a loop that is frozen with the
        // allocator's lock; and it knows the images, whatever becomes of `/proc`.
        let _ = begun.recv();
        let (own, ended) = ([Some(thread.thread().id()), hooks], Mutex::new(ended));
        Ok(Self { control, own, ended, _registration: registration })
    }

    /// Stops counting until the guard is dropped: while the program knows that its loop will not turn. Pauses add up. After
    /// the last one silence is counted anew, however short the pause was: paused again and again before the threshold, a loop
    /// is never called frozen.
    ///
    /// A freeze that goes on when the pause begins is closed with an unknown end.
    pub fn pause(&self) -> Pause {
        self.control.pause();
        Pause { control: self.control.clone() }
    }

    /// Announces that the loop will not turn for up to `duration` from now on, and why: until the guard is dropped, nothing is
    /// called a freeze before that time. What lasts longer is one, with all of its duration, and the reason in its report. If
    /// the guard is dropped in time, silence is counted anew from there on. Of several, dropped in any order, the one that ends
    /// latest is in force.
    ///
    /// ```
    /// # use freezeframe_monitor::Monitor;
    /// # use std::time::Duration;
    /// # let (monitor, _beacon) = Monitor::builder("main").watch_run_loop()?;
    /// {
    ///     let _expected = monitor.expect(Duration::from_secs(3), "opens the database");
    ///     // … what takes long …
    /// }
    /// # Ok::<(), freezeframe_monitor::StartError>(())
    /// ```
    pub fn expect(&self, duration: Duration, why: &str) -> Expectation {
        let until_ns = clock::now().saturating_add(duration.as_nanos().try_into().unwrap_or(u64::MAX));
        Expectation { control: self.control.clone(), number: self.control.expected.announce(until_ns, why) }
    }

    /// Leaves a breadcrumb: what the program does just now. The latest 16 of this component are in each report; of each, 96
    /// bytes.
    pub fn breadcrumb(&self, text: &str) {
        let now = clock::now();
        self.control.crumbs.lock().unwrap_or_else(PoisonError::into_inner).add(now, text);
    }

    /// Changes what counts as a freeze; longer ticks from the next one on. An interval below 1 ms is taken as that, and no misses as
    /// one.
    pub fn set_threshold(&self, interval: Duration, misses: u32) {
        let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1_000_000);
        self.control.interval_ns.store(interval_ns, Ordering::Relaxed);
        self.control.misses.store(misses.max(1), Ordering::Relaxed);
        // It may be in a tick of the old length.
        self.control.wake.post();
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
            false_alarms: load(&control.false_alarms),
            counted: load(&control.counted),
            capped: load(&control.capped),
            filtered: load(&control.filtered),
            never_idle: load(&control.never_idle),
            cpu_high: load(&control.cpu_high),
            unheard: load(&control.unheard),
            panicked: load(&control.panicked),
            wakeups: load(&control.wakeups),
            late_ticks: load(&control.late_ticks),
        }
    }

    /// Whether it would notice a freeze, unless it is paused. Not if no ping can be posted any more, since
    /// [`PingTarget::post`](crate::PingTarget::post) has panicked, or if the watcher has ended. A loop is not called healthy then: it
    /// is not known.
    pub fn is_watching(&self) -> bool {
        !self.control.blind.load(Ordering::Acquire)
    }

    /// Stops watching. Returns when the watcher has ended, or after one timeout if it does not end: a callback that does
    /// not return keeps its own thread, but not the caller's. The loop may be frozen all the while, and may be watched anew after
    /// this. Stopping from the callback does not wait.
    pub fn stop(self) {}
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.control.stop.store(true, Ordering::Release);
        self.control.wake.post();
        if !self.own.contains(&Some(std::thread::current().id())) {
            let patience = Duration::from_nanos(self.control.interval_ns.load(Ordering::Relaxed));
            let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = ended.recv_timeout(patience);
        }
    }
}

/// However the watcher ends, it sees nothing any more.
struct BlindAtTheEnd(Arc<Control>);

impl Drop for BlindAtTheEnd {
    fn drop(&mut self) {
        self.0.blind.store(true, Ordering::Release);
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

/// An announcement that the loop will not turn, until it is dropped. See [`Monitor::expect`].
#[derive(Debug)]
#[must_use = "the expectation ends when this is dropped"]
pub struct Expectation {
    control: Arc<Control>,
    number: u64,
}

impl Drop for Expectation {
    fn drop(&mut self) {
        self.control.expected.take_back(self.number, clock::now());
    }
}
