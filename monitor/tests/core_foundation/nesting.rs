//! Loops inside callbacks: what is counted, what cannot be seen, and what the loop itself says then.

use crate::stage::{Activity, INTERVAL, Stage, wait_for};
use freezeframe_monitor::RunLoop;
use objc2_core_foundation::{CFRunLoop, CFString};
use std::time::Duration;

#[test]
fn an_idle_nested_loop_in_a_common_mode_is_no_freeze() {
    let stage = Stage::watched();
    stage.after(0.01, |stage| {
        stage.run(INTERVAL.as_secs_f64() * 20.0);
    });
    stage.after(3600.0, |_| {});
    stage.run(0.1);
    assert_eq!(stage.freezes(), 0);
}

#[test]
fn an_idle_nested_loop_in_a_private_mode_is_no_freeze_though_no_observer_is_called() {
    let stage = Stage::watched();
    stage.after(0.01, |stage| {
        stage.activities();
        stage.run_privately("private", INTERVAL.as_secs_f64() * 20.0);
        assert_eq!(stage.activities(), [], "invisible");
    });
    stage.run(0.1);
    assert_eq!(stage.freezes(), 0);
}

#[test]
fn the_time_before_the_wait_of_a_private_loop_does_not_count_and_a_freeze_after_it_is_seen() {
    let stage = Stage::watched();
    stage.after(0.01, |stage| {
        std::thread::sleep(INTERVAL * 3);
        stage.run_privately("private", INTERVAL.as_secs_f64() * 100.0);
        stage.freeze();
    });
    stage.run_until_stopped();
    let records = stage.records();
    assert_eq!(records.len(), 1);
    let lasted = Duration::from_nanos(records[0].duration_ns);
    assert!(lasted >= INTERVAL * 5, "{lasted:?}");
    // Counted from the last look that has found the loop waiting: it may have left its wait right after that. The time
    // before would add 103 timeouts.
    let before = Duration::from_nanos(records[0].times.detected_ns - records[0].times.started_ns);
    assert!(before < INTERVAL * 50, "{before:?}");
}

#[test]
fn a_freeze_inside_a_private_loop_is_seen_and_ends_when_the_loop_waits_again() {
    let stage = Stage::watched();
    stage.after(0.01, |stage| {
        let (mode, inner) = (CFString::from_str("private"), stage.clone());
        let frozen = crate::stage::timer(0.05, 0.0, move || inner.freeze());
        stage.run_loop.add_timer(Some(&frozen), Some(&mode));
        // Waits for long after the freeze, too.
        stage.run_privately("private", INTERVAL.as_secs_f64() * 100.0);
    });
    stage.run_until_stopped();
    let records = stage.records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].last_activity, Some("AfterWaiting"), "the outer one: the private mode has none");
    let lasted = Duration::from_nanos(records[0].duration_ns);
    assert!(lasted < INTERVAL * 50, "the waits before it and after it are not the freeze's: {lasted:?}");
}

#[test]
fn a_callback_that_freezes_while_it_polls_a_private_mode_is_seen() {
    let stage = Stage::watched();
    stage.after(0.01, |stage| {
        let mode = CFString::from_str("private");
        let keeper = crate::stage::timer(3600.0, 0.0, || {});
        stage.run_loop.add_timer(Some(&keeper), Some(&mode));
        // Every poll says for a moment that the loop waits.
        stage.freeze_doing(|| {
            CFRunLoop::run_in_mode(Some(&mode), 0.0, false);
            std::thread::sleep(Duration::from_micros(500));
        });
    });
    stage.run_until_stopped();
    stage.was_seen_after("AfterWaiting");
}

#[test]
fn a_mode_that_was_asked_for_is_watched_like_the_common_ones() {
    let stage = Stage::unwatched();
    stage.watch(&["private"]);
    stage.after(0.01, |stage| {
        let (mode, inner) = (CFString::from_str("private"), stage.clone());
        let frozen = crate::stage::timer(0.05, 0.0, move || inner.freeze());
        stage.run_loop.add_timer(Some(&frozen), Some(&mode));
        let before = stage.statistics().wakeups;
        stage.run_privately("private", INTERVAL.as_secs_f64() * 100.0);
        assert!(stage.statistics().wakeups - before < 60, "the watcher sleeps while the nested loop waits");
    });
    stage.run_until_stopped();
    let records = stage.records();
    assert_eq!(records.len(), 1);
    let before = Duration::from_nanos(records[0].times.detected_ns - records[0].times.started_ns);
    assert!(before < Duration::from_secs(10) && before >= INTERVAL * 5, "{before:?}");
    assert_eq!(records[0].last_activity, Some("AfterWaiting"));
}

#[test]
fn three_nested_loops_are_counted_and_the_outermost_callback_is_still_watched() {
    let stage = Stage::watched();
    stage.after(3600.0, |_| {});
    stage.after(0.01, |stage| {
        stage.after(0.01, |stage| {
            stage.after(0.01, |stage| {
                stage.run(0.02);
            });
            stage.run(0.04);
        });
        stage.run(0.08);
        stage.freeze();
    });
    stage.run_until_stopped();
    assert_eq!(stage.around().0, Activity::Exit);
    stage.was_seen_after("AfterWaiting");
}

#[test]
fn a_monitor_begun_inside_a_callback_sees_that_callback_freeze() {
    let stage = Stage::unwatched();
    stage.after(0.01, |stage| {
        stage.watch(&[]);
        stage.freeze();
    });
    stage.run_until_stopped();
    // It has seen no activity yet.
    stage.was_seen_after("Exit");
}

#[test]
fn a_monitor_begun_inside_a_nested_loop_bears_its_exit_and_sees_the_outer_callback_freeze() {
    let stage = Stage::unwatched();
    stage.after(3600.0, |_| {});
    stage.after(0.01, |stage| {
        stage.after(0.01, |stage| stage.watch(&[]));
        stage.run(0.04);
        stage.freeze();
    });
    stage.run_until_stopped();
    assert_eq!(stage.around(), (Activity::Exit, Activity::BeforeTimers));
    // The outer run's end, an Exit without its Entry too, leaves nothing busy.
    stage.linger();
    assert_eq!(stage.freezes(), 1);
    stage.was_seen_after("Exit");
}

#[test]
fn a_monitor_begun_by_another_thread_while_the_loop_waits_sees_the_next_callback() {
    let stage = Stage::unwatched();
    let run_loop = RunLoop::current();
    let builder = stage.builder();
    let starter = std::thread::spawn(move || {
        wait_for("waiting", || run_loop.is_waiting());
        builder.watch_core_foundation(&run_loop, &[]).unwrap()
    });
    let starter = std::cell::Cell::new(Some(starter));
    stage.after(0.5, move |stage| {
        stage.set(starter.take().unwrap().join().unwrap());
        stage.freeze();
    });
    stage.run_until_stopped();
    stage.was_seen_after("AfterWaiting");
}

#[test]
fn the_end_of_a_freeze_after_a_private_loop_is_known_exactly_though_the_watcher_looks_much_later() {
    let stage = Stage::unwatched();
    const INTERVAL: Duration = Duration::from_millis(500);
    let builder = stage.builder().interval(INTERVAL).misses(1);
    stage.set(builder.watch_core_foundation(&RunLoop::current(), &[]).unwrap());
    stage.after(0.01, |stage| {
        stage.run_privately("private", INTERVAL.as_secs_f64() * 2.5);
        stage.freeze_doing(|| std::thread::sleep(Duration::from_millis(1)));
        // The loop turns and turns until the watcher looks.
        stage.after(INTERVAL.as_secs_f64() * 2.0, |stage| stage.run_loop.stop());
    });
    let ticks = crate::stage::timer(0.005, 0.005, || {});
    // SAFETY: a constant.
    stage.run_loop.add_timer(Some(&ticks), unsafe { objc2_core_foundation::kCFRunLoopDefaultMode });
    stage.run(60.0);
    stage.run(60.0);
    let records = stage.records();
    assert_eq!(records.len(), 1);
    let detected = records[0].times.detected_ns - records[0].times.started_ns;
    let rest = Duration::from_nanos(records[0].duration_ns - detected);
    assert!(
        rest < INTERVAL * 3 / 5,
        "it ended when it was detected, {rest:?} before it was known to have ended"
    );
}
