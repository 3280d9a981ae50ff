//! The loop watched by pings.

use crate::stage::{Activity, INTERVAL, Stage};
use freezeframe_report::read::RecordStrategy;

fn pinged() -> crate::stage::Test {
    let stage = Stage::unwatched();
    stage.watch_by_ping();
    stage.after(3600.0, |_| {});
    stage
}

#[test]
fn a_callback_that_keeps_the_loop_from_answering_is_a_freeze() {
    let stage = pinged();
    stage.after(0.05, |stage| stage.freeze());
    stage.run_until_stopped();
    let records = stage.records();
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].strategy, records[0].last_activity), (RecordStrategy::Ping, None));
}

#[test]
fn a_loop_that_turns_answers() {
    let stage = pinged();
    let ticks = crate::stage::timer(0.005, 0.005, || std::thread::sleep(std::time::Duration::from_millis(3)));
    // SAFETY: a constant.
    let mode = unsafe { objc2_core_foundation::kCFRunLoopDefaultMode };
    stage.run_loop.add_timer(Some(&ticks), mode);
    stage.run(INTERVAL.as_secs_f64() * 20.0);
    assert_eq!(stage.freezes(), 0);
}

#[test]
fn a_waiting_loop_is_not_woken() {
    let stage = pinged();
    // What was asked before it waited is answered first.
    stage.run(INTERVAL.as_secs_f64() * 5.0);
    stage.activities();
    stage.run(INTERVAL.as_secs_f64() * 20.0);
    let passes = stage.activities().iter().filter(|activity| **activity == Activity::BeforeTimers).count();
    assert!(passes <= 3, "{passes} passes");
}

#[test]
fn a_loop_nested_in_a_common_mode_answers_for_the_outer_one() {
    let stage = pinged();
    stage.after(0.01, |stage| {
        let ticks =
            crate::stage::timer(0.005, 0.005, || std::thread::sleep(std::time::Duration::from_millis(3)));
        // SAFETY: a constant.
        let mode = unsafe { objc2_core_foundation::kCFRunLoopDefaultMode };
        stage.run_loop.add_timer(Some(&ticks), mode);
        stage.run(INTERVAL.as_secs_f64() * 20.0);
        stage.run_loop.remove_timer(Some(&ticks), mode);
    });
    stage.run(0.05);
    assert_eq!(stage.freezes(), 0);
}

#[test]
fn an_idle_loop_nested_in_a_private_mode_does_not_answer_and_is_no_freeze() {
    let stage = pinged();
    stage.after(0.05, |stage| {
        // Long enough for a ping that is not answered in this callback.
        std::thread::sleep(INTERVAL * 2);
        stage.run_privately("private", INTERVAL.as_secs_f64() * 20.0);
    });
    stage.run(0.2);
    assert_eq!(stage.freezes(), 0);
}
