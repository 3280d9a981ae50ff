//! Where the program blocks, and what the monitor says of it.

use crate::stage::{Frozen, Stage};
use freezeframe_report::read::{CauseKind, RecordOutcome, RecordStrategy};
use freezeframe_unwind::threads::current;

/// Runs a function of the program that blocks; nothing where there is no such program.
fn frozen(function: &str) -> Option<Frozen> {
    Some(Stage::new()?.freeze(function))
}

#[test]
fn in_a_timeouts_callback_its_stack_goes_through_glib_to_the_programs_main_function() {
    let Some(frozen) = frozen("freeze_in_timeout") else { return };
    let Frozen(record) = frozen.after("AfterWaiting").at_depth(1).inside(&[
        "block_for_too_long",
        "callback_that_blocks",
        "g_main_context_dispatch",
        "g_main_loop_run",
        "freeze_in_timeout",
    ]);
    assert_eq!((record.strategy, record.outcome), (RecordStrategy::RunLoop, RecordOutcome::Recovered));
    assert_eq!(record.watched().unwrap().id, current().0 as u32);
    assert!((100_000_000..60_000_000_000).contains(&record.duration_ns), "{}", record.duration_ns);
}

#[test]
fn in_the_global_default_context() {
    let Some(stage) = Stage::global() else { return };
    stage
        .freeze("freeze_in_timeout")
        .after("AfterWaiting")
        .inside(&["block_for_too_long", "callback_that_blocks"]);
}

/// A callback may wait as the loop itself does, or in a way that nobody knows: the context stands still all the same.
#[test]
fn in_a_callback_that_waits_for_events_it_is_no_false_alarm() {
    for (function, cause) in [
        ("freeze_by_poll", CauseKind::Peer),
        ("freeze_by_select", CauseKind::Peer),
        ("freeze_by_poll_of_nothing", CauseKind::Sleeping),
        ("freeze_by_select_of_nothing", CauseKind::Sleeping),
        ("freeze_by_a_child", CauseKind::Child),
        ("freeze_by_a_rare_call", CauseKind::Io),
        ("freeze_by_a_private_loop", CauseKind::Peer),
    ] {
        let Some(stage) = Stage::new() else { return };
        stage.watch();
        stage.run_blocking(function);
        let statistics = stage.statistics();
        stage.stop();
        let causes: Vec<_> = stage
            .records()
            .iter()
            .map(|record| record.episode.as_ref().map(|episode| episode.cause))
            .collect();
        assert_eq!((&causes[..], statistics.false_alarms), (&[Some(cause)][..], 0), "{function}");
    }
}

#[test]
fn in_an_idle_callback() {
    let Some(frozen) = frozen("freeze_in_idle") else { return };
    frozen.after("AfterWaiting").inside(&["block_for_too_long", "callback_that_blocks", "freeze_in_idle"]);
}

#[test]
fn in_a_sources_dispatch() {
    let Some(frozen) = frozen("freeze_in_dispatch") else { return };
    frozen.after("AfterWaiting").inside(&[
        "block_for_too_long",
        "block_and_quit",
        "g_main_context_dispatch",
        "freeze_in_dispatch",
    ]);
}

#[test]
fn while_a_source_is_asked_before_the_wait() {
    let Some(frozen) = frozen("freeze_in_prepare") else { return };
    frozen.after("BeforeTimers").inside(&[
        "block_for_too_long",
        "g_main_context_prepare",
        "freeze_in_prepare",
    ]);
}

#[test]
fn while_a_source_is_asked_after_the_wait() {
    let Some(frozen) = frozen("freeze_in_check") else { return };
    frozen.after("AfterWaiting").inside(&["block_for_too_long", "freeze_in_check"]);
}

#[test]
fn in_a_callback_of_a_nested_run() {
    let Some(frozen) = frozen("freeze_in_nested_run") else { return };
    let Frozen(record) = frozen.after("AfterWaiting").at_depth(2).inside(&[
        "block_for_too_long",
        "callback_that_blocks",
        "g_main_context_dispatch",
        "g_main_loop_run",
        "run_nested",
        "g_main_context_dispatch",
        "g_main_loop_run",
        "freeze_in_nested_run",
    ]);
    assert!(record.episode.unwrap().labels.contains(&"nested"));
}

#[test]
fn in_the_outer_callback_after_a_nested_run_has_returned() {
    let Some(frozen) = frozen("freeze_after_nested_run") else { return };
    frozen.after("AfterWaiting").inside(&[
        "block_for_too_long",
        "nest_and_block",
        "g_main_context_dispatch",
        "g_main_loop_run",
        "freeze_after_nested_run",
    ]);
}

#[test]
fn in_a_loop_that_polls_by_a_function_which_somebody_has_set_meanwhile() {
    let Some(frozen) = frozen("freeze_with_others_poll") else { return };
    frozen.after("AfterWaiting").inside(&["block_for_too_long", "callback_that_blocks"]);
}

#[test]
fn in_a_context_that_is_driven_by_another_loop() {
    let Some(frozen) = frozen("freeze_driven_by_hand") else { return };
    frozen.after("AfterWaiting").inside(&["block_for_too_long", "block_and_leave", "freeze_driven_by_hand"]);
}
