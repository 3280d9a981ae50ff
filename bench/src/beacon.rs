//! What a transition costs the watched thread: the beacon, beside a semaphore that is posted each time.

use crate::measure::{Cost, cost_of};
use crate::posted::{PosixSemaphore, post_after_post, waking_post};
use crate::table::Table;
use freezeframe_monitor::{Activity, Beacon, Monitor, Semaphore};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

/// A healthy loop's turn.
const TURN: [Activity; 4] =
    [Activity::BeforeTimers, Activity::BeforeSources, Activity::BeforeWaiting, Activity::AfterWaiting];

pub(crate) fn run() -> Result<Vec<Table>, Box<dyn Error>> {
    let mut table = Table::new("what a transition costs the watched thread", "transition");
    let clock = cost_of(|| {
        black_box(clock_gettime(ClockId::Monotonic));
    });

    let (monitor, beacon) = Monitor::builder("bench").watch_run_loop()?;
    let began = Instant::now();
    let wakeups = monitor.statistics().wakeups;
    let busy = table.row("beacon, from busy to busy", None, busy_transition(&beacon));
    table.row("beacon, a whole turn / 4", None, whole_turn(&beacon));
    let wakeups = (monitor.statistics().wakeups - wakeups) as f64 / began.elapsed().as_secs_f64();
    drop((beacon, monitor));

    table.row("the clock read alone", None, clock);
    let post = table.row("sem_post, watcher waits", None, waking_post(&PosixSemaphore::new(), clock));
    table.row("sem_post, one after the other", None, post_after_post(&PosixSemaphore::new()));
    table.row("our Semaphore, watcher waits", None, waking_post(&Semaphore::new(), clock));
    table.row("our Semaphore, one after the other", None, post_after_post(&Semaphore::new()));

    table.compare_with(busy);
    table.under(30.0, "under 30 ns with its clock read", busy);
    table.at_least(100.0, "100 × under a post that wakes the watcher", post / busy);
    table.notes.push(format!("the monitor's watcher ran at {wakeups:.1} wake-ups a second meanwhile"));
    Ok(vec![table])
}

fn busy_transition(beacon: &Beacon) -> Cost {
    cost_of(|| beacon.transition(black_box(Activity::BeforeSources)))
}

fn whole_turn(beacon: &Beacon) -> Cost {
    cost_of(|| TURN.iter().for_each(|activity| beacon.transition(*activity))).per(TURN.len())
}
