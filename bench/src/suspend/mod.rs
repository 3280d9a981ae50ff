//! How long threads stand still while they are captured, by the way in which that is done.

mod attach;
mod crowd;
mod handler;

use crate::measure::{Cost, best_of};
use crate::table::Table;
use crowd::Crowd;
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::init::{Config, init};
use freezeframe_unwind::snapshot::{Held, Options, Set, Snapshot};
use freezeframe_unwind::suspend::{Patience, Purpose, Suspender, Way, Ways};
use std::error::Error;
use std::sync::{Mutex, PoisonError};

/// What is there for the captures, before they begin.
struct Storage {
    images: ImageTable,
    snapshot: Snapshot<256, 8192, { 2 << 20 }>,
}

static STORAGE: Mutex<Storage> = Mutex::new(Storage { images: ImageTable::new(), snapshot: Snapshot::new() });

const COUNTS: [usize; 3] = [1, 16, 128];

pub(crate) fn run() -> Result<Vec<Table>, Box<dyn Error>> {
    let mut table = Table::new(
        "the longest time that a thread stands still while threads are captured; of those held together, all of them",
        "capture",
    );
    let suspender = init(Config::default())?;
    STORAGE.lock().unwrap_or_else(PoisonError::into_inner).images.refresh()?;
    let mut compared = f64::NAN;
    for runs in [false, true] {
        for count in COUNTS {
            // One after the other, each of many that run waits for its processor: for minutes.
            let few = !runs || count <= 16;
            let batches = if runs { 10 } else { 100 };
            let state = if runs { "running" } else { "waiting" };
            let crowd = Crowd::start(count, runs)?;
            let name = |way: &str| format!("{count:3} {state}: {way}");
            if !runs {
                let peek = held(&suspender, &crowd, Way::Peek, batches);
                table.row(name("ours, peek"), None, peek);
                table.under(1.0, format!("{count} waiting, not held at all, by peek"), peek.best_ns);
            }
            if few {
                let signal = held(&suspender, &crowd, Way::Signal, batches);
                let signal = table.row(name("ours, signal, one by one"), None, signal);
                if (count, runs) == (1, false) {
                    compared = signal;
                    table.under(10_000.0, "1 waiting, under 10 µs, by signal", signal);
                }
            }
            let together = held(&suspender, &crowd, Way::Ptrace, batches);
            let together = table.row(name("ours, ptrace, together"), None, together);
            if count == 128 {
                table.under(2_000_000.0, format!("128 {state}, under 2 ms, together"), together);
            }
            if few {
                let attached = best_of(batches.min(20), || attach::held(&crowd.ids).unwrap_or(f64::NAN));
                table.row(name("attached one by one, as gdb does"), None, attached);
                let walking = best_of(batches, || handler::longest_held(&crowd.ids));
                table.row(name("walks itself in a handler"), None, walking);
                if count > 1 {
                    let what = format!("{count} {state}, attached one by one / together");
                    table.at_least(1.0, what, attached.best_ns / together);
                }
            }
        }
    }
    table.compare_with(compared);
    table
        .notes
        .push("threads that run are more than the processors: each waits for its turn to be stopped".into());
    Ok(vec![table])
}

/// The longest time that one of the crowd was held, or all of them together.
fn held(suspender: &Suspender, crowd: &Crowd, way: Way, batches: usize) -> Cost {
    let mut storage = STORAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let Storage { images, snapshot } = &mut *storage;
    let patience = Patience { stop_within_ns: 5_000_000_000, hold_at_most_ns: 5_000_000_000 };
    let purpose = if way == Way::Ptrace { Purpose::AllTogether } else { Purpose::OneThread };
    let options = Options {
        purpose,
        ways: Ways::only(way),
        first_patience: patience,
        other_patience: patience,
        all_within_ns: 60_000_000_000,
        ..Options::default()
    };
    best_of(batches, || {
        if snapshot.capture(suspender, images, &options).is_err() {
            return f64::NAN;
        }
        let view = snapshot.view();
        let mut threads = view.threads.iter().filter(|thread| crowd.ids.contains(&thread.thread.0));
        match view.set {
            Set::Together { held_ns } => held_ns as f64,
            _ => threads
                .try_fold(0.0, |longest: f64, thread| longest_of(longest, thread.held))
                .unwrap_or(f64::NAN),
        }
    })
}

/// None for a thread that was not read.
fn longest_of(longest: f64, held: Held) -> Option<f64> {
    match held {
        Held::Peek => Some(longest),
        Held::Signal { held_ns } | Held::Ptrace { held_ns } => Some(longest.max(held_ns as f64)),
        _ => None,
    }
}
