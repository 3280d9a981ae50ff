//! tokio's runtime of one thread, by its hooks.

use crate::{LONG, Stage, block_for_too_long};
use freezeframe_monitor::{Activity, Beacon, Builder, Monitor};
use freezeframe_unwind::threads::current;
use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::yield_now;
use tokio::time::sleep;

/// Watched from its first task on.
fn watched(builder: Builder) -> (Monitor, Beacon, Runtime) {
    let (monitor, beacon) = builder.watch_run_loop().unwrap();
    let (park, unpark) = beacon.park_hooks();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().on_thread_park(park).on_thread_unpark(unpark).build().unwrap();
    let handle = runtime.handle().clone();
    beacon.ask_by(move |turn| drop(handle.spawn(async { turn.tell() })));
    beacon.transition(Activity::Entry);
    (monitor, beacon, runtime)
}

fn run(builder: Builder, program: impl Future<Output = ()>) -> freezeframe_monitor::Statistics {
    let (monitor, beacon, runtime) = watched(builder);
    runtime.block_on(program);
    beacon.transition(Activity::Exit);
    monitor.statistics()
}

#[inline(never)]
async fn task_that_blocks(file: PathBuf) {
    sleep(Duration::from_millis(20)).await;
    block_for_too_long(&file);
}

#[test]
fn a_task_that_blocks_is_a_freeze_with_its_stack() {
    let stage = Stage::new();
    let file = stage.file.clone();
    run(stage.builder(), async {
        tokio::spawn(task_that_blocks(file)).await.unwrap();
        sleep(Duration::from_millis(20)).await;
    });
    let records = stage.records("task_that_blocks");
    assert_eq!(records.len(), 1);
    let record = &records[0];
    assert_eq!(record.watched().unwrap().id, current().0 as u32);
    assert!(["AfterWaiting", "BeforeSources"].map(Some).contains(&record.last_activity), "{record:?}");
    assert!(record.duration_ns >= 250_000_000, "{}", record.duration_ns);
}

#[test]
fn what_blocks_before_the_first_wait_is_a_freeze_too() {
    let stage = Stage::new();
    run(stage.builder(), async { block_for_too_long(&stage.file) });
    assert_eq!(stage.records("block_for_too_long").len(), 1);
}

#[test]
fn a_runtime_that_always_has_work_turns_and_is_not_frozen_but_never_idle() {
    let stage = Stage::new();
    let begun = Instant::now();
    let statistics = run(stage.builder().never_idle(LONG / 3), async {
        let busy = tokio::spawn(async move {
            while begun.elapsed() < LONG {
                yield_now().await;
            }
        });
        busy.await.unwrap();
    });
    assert_eq!((statistics.freezes, statistics.never_idle), (0, 1));
}

#[test]
fn an_idle_runtime_does_not_wake_the_watcher_nor_the_watcher_the_runtime() {
    let stage = Stage::new();
    let (monitor, beacon, runtime) = watched(stage.builder());
    let quiet = async || {
        let before = monitor.statistics().wakeups;
        sleep(Duration::from_secs(2)).await;
        // It is woken by the end of such a sleep, and looks once more when a timeout has passed.
        monitor.statistics().wakeups - before <= 3
    };
    let is_quiet = runtime.block_on(async { quiet().await || quiet().await || quiet().await });
    assert!(is_quiet, "the watcher has woken up {} times", monitor.statistics().wakeups);
    beacon.transition(Activity::Exit);
    assert_eq!(monitor.statistics().freezes, 0);
}
