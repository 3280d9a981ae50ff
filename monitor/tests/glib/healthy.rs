//! What is no freeze: nothing must be noticed, however long it lasts.

use crate::stage::Stage;
use std::time::Duration;

/// Long enough for several freezes.
const LONG: Duration = Duration::from_millis(1200);

/// Runs a function of the program for long; nothing where there is no such program.
fn healthy(function: &str) {
    let Some(stage) = Stage::new() else { return };
    stage.set(stage.builder().watch_glib(&stage.context()).unwrap());
    stage.run_for(function, LONG);
    assert_eq!((function, stage.statistics().freezes), (function, 0));
}

#[test]
fn an_idle_loop_does_not_wake_the_watcher_once() {
    let Some(stage) = Stage::new() else { return };
    stage.set(stage.builder().watch_glib(&stage.context()).unwrap());
    stage.run_until_parked("stay_idle", Duration::from_secs(2));
    assert_eq!(stage.statistics().freezes, 0);
}

#[test]
fn a_nested_run_that_waits_for_long() {
    healthy("wait_in_nested_run");
}

#[test]
fn a_loop_that_never_waits_but_turns() {
    healthy("never_wait");
    healthy("poll_without_waiting");
}

#[test]
fn a_loop_whose_poll_function_somebody_has_set_meanwhile() {
    healthy("run_with_others_poll");
}

#[test]
fn a_context_that_is_driven_by_another_loop() {
    healthy("run_driven_by_hand");
}

#[test]
fn a_loop_that_never_waits_is_told_from_one_that_does() {
    for (function, never_idle) in [("never_wait", 1), ("stay_idle", 0)] {
        let Some(stage) = Stage::new() else { return };
        let builder = stage.builder().never_idle(LONG / 3);
        stage.set(builder.watch_glib(&stage.context()).unwrap());
        stage.run_for(function, LONG);
        let statistics = stage.statistics();
        assert_eq!((function, statistics.never_idle, statistics.freezes), (function, never_idle, 0));
    }
}
