//! What a pass of a run consists of, and what `CFRunLoopIsWaiting` says meanwhile.

use crate::stage::{Activity, Stage, timer, wait_for};
use freezeframe_monitor::RunLoop;
use objc2_core_foundation::{CFRunLoop, CFRunLoopRunResult, kCFRunLoopDefaultMode};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

const PASS: [Activity; 4] =
    [Activity::BeforeTimers, Activity::BeforeSources, Activity::BeforeWaiting, Activity::AfterWaiting];

#[test]
fn a_run_with_a_timer_is_an_entry_then_whole_passes_then_an_exit() {
    let stage = Stage::unwatched();
    let fired = Rc::new(Cell::new(0));
    let count = fired.clone();
    let (run_loop, ticks) = (
        stage.run_loop.clone(),
        timer(0.01, 0.01, move || {
            count.set(count.get() + 1);
            if count.get() == 3 {
                CFRunLoop::current().unwrap().stop();
            }
        }),
    );
    // SAFETY: a constant.
    run_loop.add_timer(Some(&ticks), unsafe { kCFRunLoopDefaultMode });
    stage.run_until_stopped();
    let mut expected = vec![Activity::Entry];
    (0..3).for_each(|_| expected.extend(PASS));
    // No BeforeTimers after the last callback.
    expected.push(Activity::Exit);
    assert_eq!((stage.activities(), fired.get()), (expected, 3));
}

#[test]
fn a_mode_without_anything_in_it_is_not_run() {
    let stage = Stage::unwatched();
    assert_eq!(stage.run(0.01), CFRunLoopRunResult::Finished);
    assert_eq!(stage.activities(), []);
}

#[test]
fn a_pass_that_has_performed_a_source_neither_waits_nor_says_so() {
    let stage = Stage::unwatched();
    stage.source(|stage, _| stage.run_loop.stop()).signal();
    stage.run_until_stopped();
    let expected = [Activity::Entry, Activity::BeforeTimers, Activity::BeforeSources, Activity::Exit];
    assert_eq!(stage.activities(), expected);
}

#[test]
fn a_source_that_signals_itself_keeps_the_loop_from_ever_waiting_and_is_no_freeze() {
    let stage = Stage::watched();
    let begun = std::time::Instant::now();
    stage
        .source(move |stage, source| {
            std::thread::sleep(Duration::from_millis(1));
            if begun.elapsed() < Duration::from_millis(400) { source.signal() } else { stage.run_loop.stop() }
        })
        .signal();
    stage.run_until_stopped();
    let activities = stage.activities();
    assert!(activities.len() > 20, "{} activities in 400 ms", activities.len());
    let between = &activities[1..activities.len() - 1];
    let mut pairs = between.chunks(2);
    assert!(pairs.all(|pair| pair == [Activity::BeforeTimers, Activity::BeforeSources]), "{between:?}");
    // What a starved machine might add does not have its stack in `freeze`.
    assert_eq!(stage.records().len(), 0);
}

#[test]
fn a_bare_wake_up_gives_one_full_empty_pass() {
    let stage = Stage::unwatched();
    let run_loop = RunLoop::current();
    stage.after(3600.0, |_| {});
    let waker = std::thread::spawn({
        let raw = SendLoop(stage.run_loop.clone());
        move || {
            wait_for("waiting", || run_loop.is_waiting());
            raw.get().wake_up();
        }
    });
    stage.run(0.3);
    waker.join().unwrap();
    let mut expected = vec![Activity::Entry];
    // One ended by the wake-up, one by the end of the time.
    (0..2).for_each(|_| expected.extend(PASS));
    expected.push(Activity::Exit);
    assert_eq!(stage.activities(), expected);
}

/// The loop, to be woken by another thread.
struct SendLoop(objc2_core_foundation::CFRetained<CFRunLoop>);
// SAFETY: run loops are thread-safe.
unsafe impl Send for SendLoop {}

impl SendLoop {
    fn get(&self) -> &CFRunLoop {
        &self.0
    }
}

#[test]
fn fires_of_a_timer_that_were_missed_become_one() {
    let stage = Stage::unwatched();
    let fired = Rc::new(Cell::new(0));
    let count = fired.clone();
    let ticks = timer(0.01, 0.05, move || {
        if count.replace(count.get() + 1) == 0 {
            std::thread::sleep(Duration::from_millis(220));
        } else {
            CFRunLoop::current().unwrap().stop();
        }
    });
    // SAFETY: a constant.
    stage.run_loop.add_timer(Some(&ticks), unsafe { kCFRunLoopDefaultMode });
    let begun = std::time::Instant::now();
    stage.run_until_stopped();
    assert_eq!(fired.get(), 2);
    assert!(begun.elapsed() > Duration::from_millis(230), "not at once after it");
}

/// Reads the flag on another thread, as the watcher does, until the end. Returns how often it was set, and was not.
fn readings(during: impl FnOnce()) -> (u32, u32) {
    let run_loop = RunLoop::current();
    let (over, counts) = (Arc::new(AtomicBool::new(false)), Arc::new([AtomicU32::new(0), AtomicU32::new(0)]));
    let reader = std::thread::spawn({
        let (over, counts) = (over.clone(), counts.clone());
        move || {
            while !over.load(Ordering::SeqCst) {
                counts[usize::from(run_loop.is_waiting())].fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    });
    during();
    over.store(true, Ordering::SeqCst);
    reader.join().unwrap();
    (counts[1].load(Ordering::SeqCst), counts[0].load(Ordering::SeqCst))
}

/// Reads during it, again and again until a good many readings were made, however little of the machine is to be had.
fn many_readings(during: impl Fn()) -> (u32, u32) {
    let (mut waits, mut does_not) = (0, 0);
    while waits + does_not < 30 {
        let more = readings(&during);
        (waits, does_not) = (waits + more.0, does_not + more.1);
    }
    (waits, does_not)
}

#[test]
fn a_loop_says_that_it_waits_while_it_waits_also_in_a_nested_private_run() {
    let stage = Stage::unwatched();
    let (waits, does_not) = many_readings(|| stage.run_privately("private", 0.2));
    assert!(waits > 3 * does_not, "{waits} {does_not}");
    let nested = Rc::new(Cell::new((0, 0)));
    let seen = nested.clone();
    stage.after(0.01, move |stage| seen.set(many_readings(|| stage.run_privately("private", 0.2))));
    stage.run(0.1);
    let (waits, does_not) = nested.get();
    assert!(waits > 3 * does_not, "{waits} {does_not}");
}

#[test]
fn a_loop_does_not_say_that_it_waits_in_any_callback() {
    let stage = Stage::unwatched();
    let counts = Rc::new(Cell::new((0, 0)));
    let busy = |counts: &Cell<(u32, u32)>| {
        let (waits, does_not) = many_readings(|| std::thread::sleep(Duration::from_millis(10)));
        counts.set((counts.get().0 + waits, counts.get().1 + does_not));
    };
    for activity in [
        Activity::Entry,
        Activity::BeforeTimers,
        Activity::BeforeSources,
        Activity::BeforeWaiting,
        Activity::AfterWaiting,
        Activity::Exit,
    ] {
        let counts = counts.clone();
        stage.once_at(0, activity, move |_| busy(&counts));
    }
    let (in_timer, in_source) = (counts.clone(), counts.clone());
    stage.after(0.01, move |_| busy(&in_timer));
    stage.source(move |_, _| busy(&in_source)).signal();
    stage.after(0.3, |stage| stage.run_loop.stop());
    stage.run_until_stopped();
    let (waits, does_not) = counts.get();
    assert!(waits == 0 && does_not >= 8 * 30, "{waits} {does_not}");
}

#[test]
fn a_poll_shows_a_wait_for_a_moment() {
    let stage = Stage::unwatched();
    stage.after(3600.0, |_| {});
    let found = Cell::new(false);
    let begun = std::time::Instant::now();
    let polls = || {
        for _ in 0..2000 {
            stage.run(0.0);
        }
    };
    while !found.get() && begun.elapsed() < Duration::from_secs(60) {
        let (waits, _) = readings(polls);
        found.set(waits > 0);
    }
    assert!(found.get(), "so one reading is not enough");
}
