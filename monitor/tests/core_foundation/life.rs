//! How a monitor begins and ends, on whatever thread.

use crate::stage::{Activity, INTERVAL, Stage, wait_for};
use freezeframe_monitor::{Phase, RunLoop, StartError};
use freezeframe_report::read::RecordOutcome;
use objc2_core_foundation::CFIndex;
use std::sync::mpsc;
use std::time::{Duration, Instant};

#[test]
fn a_freeze_is_reported_once_and_closed_when_the_loop_turns() {
    let stage = Stage::unwatched();
    let (send, events) = mpsc::channel();
    let builder =
        stage.builder().on_freeze(move |freeze| send.send((freeze.phase, freeze.duration)).unwrap());
    stage.set(builder.watch_core_foundation(&RunLoop::current(), &[]).unwrap());
    stage.after(0.01, |stage| {
        stage.freeze();
        std::thread::sleep(INTERVAL * 10);
    });
    stage.run_until_stopped();
    wait_for("the end of the freeze", || {
        stage.records().iter().all(|record| record.outcome != RecordOutcome::Ongoing)
    });
    let events: Vec<_> = events.try_iter().collect();
    // It becomes more severe meanwhile.
    let phases: Vec<_> =
        events.iter().map(|event| event.0).filter(|phase| *phase != Phase::Worsened).collect();
    assert_eq!(phases, [Phase::Detected, Phase::Recovered]);
    assert!(events[0].1 >= INTERVAL * 5, "{events:?}");
}

#[test]
fn a_waiting_loop_costs_the_watcher_nothing() {
    let stage = Stage::watched();
    stage.after(0.01, |_| {});
    stage.after(1.0, |stage| stage.run_loop.stop());
    let run_loop = RunLoop::current();
    let monitor = stage.monitor();
    let counter = std::thread::spawn(move || {
        wait_for("waiting", || run_loop.is_waiting());
        std::thread::sleep(Duration::from_millis(300));
        let before = monitor.statistics().wakeups;
        std::thread::sleep(Duration::from_millis(500));
        (monitor.statistics().wakeups - before, monitor)
    });
    stage.run_until_stopped();
    let (wakeups, _monitor) = counter.join().unwrap();
    assert_eq!(wakeups, 0);
}

#[test]
fn stopping_on_another_thread_while_the_loop_is_frozen_does_not_wait_for_it() {
    let stage = Stage::watched();
    stage.after(0.01, |stage| {
        stage.freeze();
        let monitor = stage.monitor();
        let took = std::thread::spawn(move || {
            let begun = Instant::now();
            monitor.stop();
            begun.elapsed()
        });
        let took = took.join().unwrap();
        assert!(took < Duration::from_secs(5), "{took:?}");
        // The loop is still in this callback, and may be watched anew.
        wait_for_the_end_of_the_watcher(stage);
    });
    stage.run_until_stopped();
    let outcomes: Vec<_> = stage.records().iter().map(|record| record.outcome).collect();
    assert_eq!(outcomes, [RecordOutcome::Unknown]);
}

/// The loop can be watched anew, so the last watcher has ended.
fn wait_for_the_end_of_the_watcher(stage: &Stage) {
    wait_for("the end of the watcher", || {
        stage.builder().watch_core_foundation(&RunLoop::current(), &[]).is_ok()
    });
}

#[test]
fn stopping_on_the_loops_own_thread() {
    let stage = Stage::watched();
    stage.after(0.01, |stage| stage.monitor().stop());
    stage.after(0.1, |stage| stage.run_loop.stop());
    stage.run_until_stopped();
    wait_for_the_end_of_the_watcher(&stage);
}

#[test]
fn stopping_on_another_thread_while_the_loop_waits() {
    let stage = Stage::watched();
    stage.after(0.3, |stage| stage.run_loop.stop());
    let (monitor, run_loop) = (stage.monitor(), RunLoop::current());
    let stopper = std::thread::spawn(move || {
        wait_for("waiting", || run_loop.is_waiting());
        monitor.stop();
    });
    stage.run_until_stopped();
    stopper.join().unwrap();
    wait_for_the_end_of_the_watcher(&stage);
}

#[test]
fn a_callback_that_comes_after_the_monitor_has_ended_finds_its_memory() {
    let stage = Stage::watched();
    stage.after(0.05, |stage| stage.run_loop.stop());
    // The loop has decided to call our last observer after this one.
    stage.once_at(0, Activity::BeforeWaiting, |stage| {
        stage.monitor().stop();
        wait_for_the_end_of_the_watcher(stage);
        // What was freed too early would be given out again.
        let _reused: Vec<_> = (0..2000).map(|size| vec![0xffu8; size % 512]).collect();
    });
    stage.run_until_stopped();
    assert_eq!(stage.activities().last(), Some(&Activity::Exit));
}

#[test]
fn one_monitor_a_loop_and_a_refused_one_leaves_the_first_alone() {
    let stage = Stage::watched();
    let refused = || {
        matches!(
            stage.builder().watch_core_foundation(&RunLoop::current(), &[]),
            Err(StartError::AlreadyWatched)
        )
    };
    assert!(refused() && refused());
    let by_ping = stage.builder().watch_core_foundation_by_ping(&RunLoop::current(), &[]);
    assert!(matches!(by_ping, Err(StartError::AlreadyWatched)));
    stage.after(0.01, |stage| stage.freeze());
    stage.run_until_stopped();
    stage.was_seen_after("AfterWaiting");
}

#[test]
#[cfg(not(any(target_vendor = "apple", core_foundation_linked)))]
fn nothing_of_ours_stays_in_the_loop_in_any_mode() {
    use crate::scripted::items;
    let stage = Stage::unwatched();
    let before = items(&stage.run_loop);
    for by_ping in [false, true] {
        let run_loop = RunLoop::current();
        let start = move |builder: freezeframe_monitor::Builder| match by_ping {
            false => builder.watch_core_foundation(&run_loop, &["one", "two"]),
            true => builder.watch_core_foundation_by_ping(&run_loop, &["one", "two"]),
        };
        let monitor = start(stage.builder()).unwrap();
        // Two observers or one source: among the common items, in the default mode and in two more.
        let during = before + if by_ping { 4 } else { 8 };
        assert_eq!(items(&stage.run_loop), during);
        assert!(start(stage.builder()).is_err());
        assert_eq!(items(&stage.run_loop), during, "a refused monitor leaves nothing");
        std::thread::spawn(move || monitor.stop()).join().unwrap();
        wait_for("the end of the watcher", || items(&stage.run_loop) == before);
    }
}

#[test]
fn the_main_loop_is_the_main_threads_from_every_thread() {
    let main = std::thread::spawn(RunLoop::main).join().unwrap();
    assert_eq!(main.thread(), RunLoop::main().thread());
    assert_ne!(main.thread(), RunLoop::current().thread());
    #[cfg(target_os = "linux")]
    assert_eq!(main.thread().0 as u32, std::process::id());
    assert!(CFIndex::MIN < 0 && !main.is_waiting());
}
