//! What a monitor costs while it watches: ours, the classic one with a semaphore, and one by pings, on the same loops.
//!
//! The two others are built here from what their kind is described by. They notice freezes as ours does, and take no stacks.

mod classic;
mod designs;
mod pings;
mod threads;
mod turning;

use crate::measure::{Cost, cost_of};
use crate::table::Table;
use classic::Classic;
use designs::{Design, Ours};
use pings::PingEachTick;
use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};
use threads::Usage;
use turning::{Load, Loop};

/// How long a loop is watched for one figure, and how many figures there are.
const SAMPLE: Duration = Duration::from_secs(1);
const SAMPLES: usize = 3;
/// A watcher that is to park has done so by then.
const SETTLED: Duration = Duration::from_millis(300);

/// What one design costs on one loop.
struct Measured {
    design: &'static str,
    /// CPU time of the monitor's threads, a second.
    watcher: Cost,
    /// Time of the loop's thread that the monitor takes, a turn.
    turn: Cost,
    /// How often the monitor's threads wake up in a second, in the quietest sample.
    wakeups: f64,
    /// Freezes that were noticed in all samples.
    freezes: u64,
    /// How often the loop came out of its wait for the monitor's sake alone, a second.
    woken: f64,
}

pub(crate) fn run() -> Result<Vec<Table>, Box<dyn Error>> {
    let clock = cost_of(|| {
        black_box(Instant::now());
    });
    let mut watcher = Table::new("what a watcher takes of a processor", "second");
    let mut turn = Table::new("what being watched takes of a turn of the loop", "turn");
    for load in Load::ALL {
        let all = [
            measure::<Ours>(load, clock)?,
            measure::<Classic>(load, clock)?,
            measure::<PingEachTick>(load, clock)?,
        ];
        report(load, &all, &mut watcher, &mut turn);
    }
    watcher.notes.push("the two others take no stacks of a frozen loop".into());
    Ok(vec![watcher, turn])
}

fn measure<D: Design>(load: Load, clock: Cost) -> Result<Measured, Box<dyn Error>> {
    let mut costs = [Vec::new(), Vec::new(), Vec::new()];
    let (mut woken, mut turns) = (0, 0);
    let watched = Loop::start::<D>(load)?;
    std::thread::sleep(SETTLED);
    for _ in 0..SAMPLES {
        let end = if load == Load::Frozen { Some(watched.freeze()?) } else { None };
        let (before, told) = (Usage::of_others(watched.thread())?, watched.told());
        let begun = Instant::now();
        std::thread::sleep(SAMPLE);
        let (usage, told) = (Usage::of_others(watched.thread())? - before, watched.told() - told);
        let seconds = begun.elapsed().as_secs_f64();
        drop(end);
        costs[0].push(usage.cpu_ns as f64 / seconds);
        costs[1].push(told.per_turn(clock));
        costs[2].push(usage.wakeups as f64 / seconds);
        (woken, turns) = (woken + told.woken, turns + told.turns);
        // Healthy again.
        std::thread::sleep(SETTLED);
    }
    let freezes = watched.stop();
    costs.iter_mut().for_each(|samples| samples.sort_by(f64::total_cmp));
    let cost = |samples: &[f64]| Cost { best_ns: samples[0], median_ns: samples[SAMPLES / 2] };
    let turn = if turns == 0 { Cost::NONE } else { cost(&costs[1]) };
    let woken = woken as f64 / (SAMPLES as f64 * SAMPLE.as_secs_f64());
    Ok(Measured { design: D::NAME, watcher: cost(&costs[0]), turn, wakeups: costs[2][0], freezes, woken })
}

fn report(load: Load, all: &[Measured], watcher: &mut Table, turn: &mut Table) {
    let ours = &all[0];
    for Measured { design, watcher: cpu, turn: main, .. } in all {
        watcher.row(format!("{}: {design}", load.name()), None, *cpu);
        if load.turns() {
            turn.row(format!("{}: {design}", load.name()), None, *main);
        }
    }
    // An idle loop costs us nothing, of which nothing is a multiple.
    watcher.compare_with(ours.watcher.best_ns);
    let wakeups = all.iter().map(|one| format!("{} {:.1}", one.design, one.wakeups));
    let wakeups = wakeups.collect::<Vec<_>>().join(", ");
    watcher.notes.push(format!("wake-ups a second, {}: {wakeups}", load.name()));
    match load {
        Load::Idle => {
            watcher.under(0.5, "idle loop: no wake-ups", ours.wakeups);
            let woken = all.iter().map(|one| format!("{} {:.1}", one.design, one.woken));
            let woken = woken.collect::<Vec<_>>().join(", ");
            watcher.notes.push(format!("an idle loop is woken up a second: {woken}"));
        }
        Load::Hz60 | Load::Hz1000 => {
            turn.compare_with(ours.turn.best_ns);
            watcher.under(21.0, format!("{}: 20 wake-ups a second", load.name()), ours.wakeups);
        }
        Load::Frozen => {
            let seen = all.iter().map(|one| format!("{} {}", one.design, one.freezes));
            let seen = seen.collect::<Vec<_>>().join(", ");
            watcher.notes.push(format!("freezes of a second that were noticed, of {SAMPLES}: {seen}"));
        }
    }
    if load == Load::Hz1000 {
        turn.under(4.0 * 30.0, "1 kHz: four transitions of under 30 ns", ours.turn.best_ns);
    }
}
