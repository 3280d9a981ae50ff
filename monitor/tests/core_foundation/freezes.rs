//! Where a freeze lies, what an observer behind all others but ours sees of it, and what the monitor says of it.

use crate::stage::{Activity, LAST, Stage};
use objc2_core_foundation::CFIndex;

#[test]
fn in_a_timers_callback() {
    let stage = Stage::watched();
    stage.after(0.02, |stage| stage.freeze());
    stage.run_until_stopped();
    assert_eq!(stage.around(), (Activity::AfterWaiting, Activity::BeforeTimers));
    stage.was_seen_after("AfterWaiting");
}

#[test]
fn in_a_timers_callback_in_a_pass_that_has_performed_a_source() {
    let stage = Stage::watched();
    // Due while the source is performed.
    stage.source(|_, _| std::thread::sleep(std::time::Duration::from_millis(10))).signal();
    stage.after(0.001, |stage| stage.freeze());
    stage.run_until_stopped();
    assert_eq!(stage.around(), (Activity::BeforeSources, Activity::BeforeTimers));
    stage.was_seen_after("BeforeSources");
}

#[test]
fn in_a_source() {
    let stage = Stage::watched();
    stage.source(|stage, _| stage.freeze()).signal();
    stage.run_until_stopped();
    assert_eq!(stage.around(), (Activity::BeforeSources, Activity::BeforeTimers));
    stage.was_seen_after("BeforeSources");
}

#[test]
fn in_another_observer_before_waiting() {
    let stage = Stage::watched();
    stage.after(0.05, |_| {});
    stage.once_at(0, Activity::BeforeWaiting, |stage| stage.freeze());
    stage.run_until_stopped();
    assert_eq!(stage.around(), (Activity::BeforeSources, Activity::BeforeWaiting));
    stage.was_seen_after("BeforeSources");
}

#[test]
fn in_an_observer_before_waiting_that_is_later_than_ours() {
    let stage = Stage::watched();
    stage.after(0.05, |_| {});
    // Of the same order as ours, and added after it.
    stage.once_at(CFIndex::MAX, Activity::BeforeWaiting, |stage| stage.freeze());
    stage.run_until_stopped();
    assert_eq!(stage.around(), (Activity::BeforeWaiting, Activity::AfterWaiting));
    stage.was_seen_after("BeforeWaiting");
}

#[test]
fn in_another_observer_after_waiting() {
    let stage = Stage::watched();
    stage.after(0.02, |_| {});
    stage.once_at(0, Activity::AfterWaiting, |stage| stage.freeze());
    stage.run_until_stopped();
    assert_eq!(
        stage.around(),
        (Activity::BeforeWaiting, Activity::AfterWaiting),
        "a last observer is misled"
    );
    stage.was_seen_after("AfterWaiting");
}

#[test]
fn in_the_outer_callback_after_a_nested_run_has_returned() {
    let stage = Stage::watched();
    stage.after(0.02, |stage| {
        // Kept from being empty by the timer below.
        stage.run(0.03);
        stage.freeze();
    });
    stage.after(3600.0, |_| {});
    stage.run_until_stopped();
    assert_eq!(stage.around(), (Activity::Exit, Activity::BeforeTimers), "a last observer is misled");
    stage.was_seen_after("AfterWaiting");
}

#[test]
fn in_an_observer_before_waiting_after_its_nested_run_has_returned() {
    let stage = Stage::watched();
    stage.after(3600.0, |_| {});
    stage.once_at(0, Activity::BeforeWaiting, |stage| {
        stage.run(0.03);
        stage.freeze();
    });
    stage.run_until_stopped();
    assert_eq!(stage.around(), (Activity::Exit, Activity::BeforeWaiting));
    stage.was_seen_after("BeforeSources");
}

#[test]
fn in_an_observer_of_the_entry() {
    let stage = Stage::watched();
    stage.after(0.05, |_| {});
    stage.once_at(LAST, Activity::Entry, |stage| stage.freeze());
    stage.run_until_stopped();
    assert_eq!(stage.around().1, Activity::BeforeTimers);
    stage.was_seen_after("Entry");
}

#[test]
fn code_outside_any_run_is_no_freeze_of_the_loop() {
    let stage = Stage::watched();
    stage.after(0.01, |_| {});
    stage.run(0.02);
    stage.linger();
    stage.after(0.01, |_| {});
    stage.run(0.02);
    assert_eq!(stage.around(), (Activity::Exit, Activity::Entry));
    assert_eq!(stage.freezes(), 0);
}
