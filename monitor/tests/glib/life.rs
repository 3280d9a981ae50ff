//! When the monitor comes and goes.

use crate::stage::Stage;
use freezeframe_monitor::StartError;
use std::time::Duration;

#[test]
fn what_happens_after_the_stop_is_not_seen_and_the_loop_may_be_watched_anew() {
    let Some(stage) = Stage::new() else { return };
    stage.watch();
    stage.run_for("run_driven_by_hand", Duration::ZERO);
    stage.stop();
    stage.run_for("freeze_in_timeout", Duration::from_millis(400));
    assert!(stage.records().is_empty());
    stage.freeze("freeze_in_timeout").after("AfterWaiting");
}

#[test]
fn a_second_monitor_of_the_loop_is_an_error_and_does_not_disturb_the_first() {
    let Some(stage) = Stage::new() else { return };
    let monitor = stage.builder().watch_glib(&stage.context()).unwrap();
    let second = stage.builder().watch_glib(&stage.context());
    assert!(matches!(second, Err(StartError::AlreadyWatched)));
    drop(second);
    stage.set(monitor);
    stage.run_blocking("freeze_in_timeout");
    stage.stop();
    assert_eq!(stage.records().len(), 1);
}

#[test]
fn the_thread_that_runs_the_context_is_the_one_whose_stack_is_taken() {
    let Some(stage) = Stage::new() else { return };
    // Watched by a thread that does not run it.
    let (context, builder) = (stage.context(), stage.builder());
    let watching = std::thread::spawn(move || builder.watch_glib(&context).unwrap());
    stage.set(watching.join().unwrap());
    stage.run_blocking("freeze_in_timeout");
    stage.stop();
    let records = stage.records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].watched().unwrap().id, freezeframe_unwind::threads::current().0 as u32);
}
