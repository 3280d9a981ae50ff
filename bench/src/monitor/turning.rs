//! The loop that is watched: it waits for its next turn or for work, tells its activities, and times what that takes.

use super::designs::{Design, Work};
use crate::measure::Cost;
use freezeframe_monitor::Activity;
use freezeframe_unwind::threads::{ThreadId, current};
use std::error::Error;
use std::ops::Sub;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How the loop is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    Idle,
    Hz60,
    Hz1000,
    /// Frozen in each sample.
    Frozen,
}

impl Load {
    pub(super) const ALL: [Self; 4] = [Self::Idle, Self::Hz60, Self::Hz1000, Self::Frozen];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle loop",
            Self::Hz60 => "60 Hz",
            Self::Hz1000 => "1 kHz",
            Self::Frozen => "frozen",
        }
    }

    pub(super) const fn turns(self) -> bool {
        matches!(self, Self::Hz60 | Self::Hz1000)
    }

    const fn period(self) -> Option<Duration> {
        match self {
            Self::Hz60 => Some(Duration::from_nanos(16_666_667)),
            Self::Hz1000 => Some(Duration::from_millis(1)),
            Self::Idle | Self::Frozen => None,
        }
    }
}

/// What the loop has counted, as of now or in some time.
#[derive(Clone, Copy)]
pub(super) struct Told {
    pub(super) turns: u64,
    /// Turns for nothing but work that the monitor had posted.
    pub(super) woken: u64,
    /// Time that the monitor has taken: telling it, and its work.
    ns: u64,
    /// How often that was timed.
    timed: u64,
}

impl Told {
    /// What the monitor takes of a turn, in ns, without what it takes to know that.
    pub(super) fn per_turn(self, clock: Cost) -> f64 {
        (self.ns as f64 - self.timed as f64 * clock.best_ns) / self.turns as f64
    }
}

impl Sub for Told {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            turns: self.turns - earlier.turns,
            woken: self.woken - earlier.woken,
            ns: self.ns - earlier.ns,
            timed: self.timed - earlier.timed,
        }
    }
}

#[derive(Default)]
struct Counters {
    turns: AtomicU64,
    woken: AtomicU64,
    ns: AtomicU64,
    timed: AtomicU64,
    freezes: AtomicU64,
    stop: AtomicBool,
}

impl Counters {
    /// Does what the monitor asks for.
    fn time<T>(&self, act: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = act();
        self.ns.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        self.timed.fetch_add(1, Ordering::Relaxed);
        done
    }
}

/// The loop on its thread.
pub(super) struct Loop {
    counters: Arc<Counters>,
    queue: Sender<Work>,
    thread: ThreadId,
    joined: JoinHandle<()>,
}

impl Loop {
    pub(super) fn start<D: Design>(load: Load) -> Result<Self, Box<dyn Error>> {
        let counters = Arc::new(Counters::default());
        let (queue, work) = channel();
        let (ready, is_ready) = channel();
        let (counting, own_queue) = (counters.clone(), queue.clone());
        let joined = std::thread::Builder::new().name("loop".into()).spawn(move || {
            let design = D::start(&own_queue).map_err(|error| error.to_string());
            drop(own_queue);
            let started = design.as_ref().map(|_| current()).map_err(Clone::clone);
            let told = ready.send(started);
            if let (Ok(design), Ok(())) = (design, told) {
                turn(load, &design, &work, &counting);
                counting.freezes.store(design.freezes(), Ordering::Release);
            }
        })?;
        let thread = is_ready.recv()??;
        Ok(Self { counters, queue, thread, joined })
    }

    pub(super) fn thread(&self) -> ThreadId {
        self.thread
    }

    pub(super) fn told(&self) -> Told {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { turns, woken, ns, timed, .. } = &*self.counters;
        Told { turns: load(turns), woken: load(woken), ns: load(ns), timed: load(timed) }
    }

    /// Freezes the loop until what this returns is dropped.
    pub(super) fn freeze(&self) -> Result<Sender<()>, Box<dyn Error>> {
        let (end, ends) = channel::<()>();
        self.queue
            .send(Box::new(move || {
                let _ = ends.recv();
            }))
            .map_err(|_| "the loop has ended")?;
        Ok(end)
    }

    /// Ends it, and says how many freezes were noticed.
    pub(super) fn stop(self) -> u64 {
        self.counters.stop.store(true, Ordering::Release);
        let _ = self.queue.send(Box::new(|| ()));
        let _ = self.joined.join();
        self.counters.freezes.load(Ordering::Acquire)
    }
}

fn turn(load: Load, design: &impl Design, work: &Receiver<Work>, counters: &Counters) {
    let mut due = Instant::now();
    counters.time(|| design.tell(Activity::Entry));
    while !counters.stop.load(Ordering::Acquire) {
        counters.time(|| {
            design.tell(Activity::BeforeTimers);
            design.tell(Activity::BeforeSources);
            design.tell(Activity::BeforeWaiting);
        });
        let posted = match load.period() {
            Some(_) => work.recv_timeout(due.saturating_duration_since(Instant::now())).ok(),
            None => work.recv().ok(),
        };
        counters.time(|| design.tell(Activity::AfterWaiting));
        match (posted, load.period()) {
            (Some(work), _) => {
                counters.woken.fetch_add(1, Ordering::Relaxed);
                counters.time(work);
            }
            (None, Some(period)) => {
                counters.turns.fetch_add(1, Ordering::Relaxed);
                due = (due + period).max(Instant::now());
            }
            (None, None) => return,
        }
    }
    design.tell(Activity::Exit);
}
