//! Snapshots of real threads.
#![cfg(any(target_os = "linux", target_os = "macos"))]

mod common;

use common::{Target, deaf, deep, is_in, parked, recurse, spin_inner, spin_outer, spinning, turn};
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::rule::Trust;
use freezeframe_unwind::snapshot::{Held, Options, Snapshot, ThreadCapture};
use freezeframe_unwind::suspend::{Patience, SuspendError, Way, Ways, exempt};
use freezeframe_unwind::threads::{ThreadId, current};
use freezeframe_unwind::walk::{Depth, Frame};
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Storage {
    images: ImageTable,
    snapshot: Snapshot<256, 8192>,
}

fn patient<'a>() -> Options<'a> {
    let patience = common::PATIENT;
    let defaults = Options::default();
    let patient = Options {
        first_patience: patience,
        other_patience: patience,
        all_within_ns: 60_000_000_000,
        ..defaults
    };
    Options { exclude: deaf(), ..patient }
}

/// A static, as a program would have it: too large for a test thread's stack. Whoever has the turn has the storage.
fn storage() -> MutexGuard<'static, Storage> {
    static STORAGE: Mutex<Storage> =
        Mutex::new(Storage { images: ImageTable::new(), snapshot: Snapshot::new() });
    let mut storage = STORAGE.lock().unwrap_or_else(PoisonError::into_inner);
    storage.images.refresh().unwrap();
    storage
}

fn find(storage: &Storage, id: ThreadId) -> (ThreadCapture, Vec<u64>) {
    let view = storage.snapshot.view();
    let thread = *view.threads.iter().find(|thread| thread.thread == id).expect("the thread is listed");
    let frames = view.frames(&thread);
    // Its own registers are none that were taken of it.
    let is_read = thread.registers.is_some() || thread.held == Held::Itself;
    assert_eq!(frames.first().map(|frame| frame.trust), is_read.then_some(Trust::Context));
    // A leaf of arm64 has not moved it.
    let ascend = |pair: &[Frame]| pair[0].sp < pair[1].sp;
    assert!(frames.get(1..).unwrap_or(&[]).windows(2).all(ascend), "stack pointers ascend");
    (thread, frames.iter().map(|frame| frame.address.lookup()).collect())
}

/// Whether a thread was held all the while, in this system's ways. One that waits need not be.
fn is_whole(held: Held) -> bool {
    if cfg!(target_os = "macos") {
        matches!(held, Held::Mach { held_ns: 1.. })
    } else {
        matches!(held, Held::Signal { held_ns: 1.. } | Held::Peek)
    }
}

#[test]
fn each_thread_has_its_own_frames() {
    let (_turn, suspender) = turn();
    let (spins, parks): (Target, Target) = (spinning(), parked());
    let mut storage = storage();
    let (inner, outer) = (spin_inner as *const () as usize, spin_outer as *const () as usize);
    // Until it is stopped in its own loop, not in the little that it calls.
    let stopped = (0..1000).find_map(|_| {
        let Storage { images, snapshot } = &mut *storage;
        snapshot.capture(&suspender, images, &patient()).unwrap();
        let (thread, frames) = find(&storage, spins.id);
        (is_in(frames[0], inner) && is_in(frames[1], outer)).then_some((thread, frames))
    });
    let (thread, frames) = stopped.expect("the loop and its caller");
    assert!(is_whole(thread.held) && thread.copies >= 1);
    assert_eq!(thread.registers.unwrap().pc(), frames[0]);
    let (_, frames) = find(&storage, parks.id);
    assert!(!frames.iter().any(|pc| is_in(*pc, inner)));
    assert!(frames.len() > 3, "from the futex out to the thread's start: {frames:#x?}");
    let (own, frames) = find(&storage, current());
    assert_eq!(own.held, Held::Itself);
    let test = each_thread_has_its_own_frames as *const () as u64;
    assert!(frames.iter().any(|pc| (test..test + 4096).contains(pc)), "this test is on its own stack");
    let view = storage.snapshot.view();
    assert!(view.threads[0].main, "the main thread comes first");
    assert_eq!(view.threads.iter().filter(|thread| thread.main).count(), 1);
    assert_eq!((view.dropped_threads, view.threads.iter().filter(|t| t.moved).count()), (0, 0));
    assert!(view.started_ns < view.ended_ns);
}

#[test]
fn who_is_first_who_is_left_out_and_whether_it_goes_on_is_the_callers_choice() {
    let (_turn, suspender) = turn();
    let (one, two) = (parked(), parked());
    let mut storage = storage();
    let Storage { images, snapshot } = &mut *storage;
    let exclude = [&[one.id, current()], deaf()].concat();
    let options = Options { first: Some(two.id), exclude: &exclude, still: &|| false, ..patient() };
    snapshot.capture(&suspender, images, &options).unwrap();
    let threads = snapshot.view().threads;
    assert_eq!(threads[0].thread, two.id);
    assert!(threads[1].main);
    assert!(!threads.iter().any(|thread| exclude.contains(&thread.thread)));
    assert!(threads[0].moved && !threads[1..].iter().any(|thread| thread.moved), "asked of the first only");
}

#[test]
fn whether_it_goes_on_is_asked_in_whichever_way_the_first_is_read() {
    let (_turn, suspender) = turn();
    let (parks, spins) = (parked(), spinning());
    let mut storage = storage();
    // The signal comes last: the helper would find the thread in our handler still, on another stack.
    for (way, target) in [(Way::Peek, &parks), (Way::Ptrace, &spins), (Way::Signal, &spins)] {
        for goes_on in [true, false] {
            let Storage { images, snapshot } = &mut *storage;
            let options = Options { ways: Ways::only(way), still: &|| goes_on, ..patient() };
            snapshot.capture_thread(&suspender, images, target.id, &options);
            let (thread, _) = find(&storage, target.id);
            // An emulator tells of no system call, and forbids tracing.
            let is_read = thread.registers.is_some();
            assert!(is_read || way != Way::Signal, "{way:?}: {:?}", thread.held);
            assert_eq!(thread.moved, is_read && !goes_on, "{way:?}");
        }
    }
}

#[test]
fn who_runs_and_was_not_stopped_in_its_time_has_what_is_left_of_the_time_for_all() {
    let (_turn, suspender) = turn();
    if !deaf().is_empty() {
        println!(
            "not tested: an emulator forbids tracing, and who is in our handler late cannot be read otherwise"
        );
        return;
    }
    let targets: Vec<Target> = (0..6).map(|_| spinning()).collect();
    let mut storage = storage();
    let Storage { images, snapshot } = &mut *storage;
    let other_patience = Patience { stop_within_ns: 1, ..common::PATIENT };
    snapshot.capture(&suspender, images, &Options { other_patience, ..patient() }).unwrap();
    let how: Vec<Held> = targets.iter().map(|target| find(&storage, target.id).0.held).collect();
    assert!(how.iter().all(|held| is_whole(*held) || matches!(held, Held::Ptrace { .. })), "{how:?}");
}

#[test]
fn a_stack_deeper_than_the_window_is_counted_exactly() {
    let (_turn, suspender) = turn();
    let target = deep(20_000);
    let mut storage = storage();
    let Storage { images, snapshot } = &mut *storage;
    let first_depth = Depth { innermost: 20, outermost: 40 };
    snapshot
        .capture(&suspender, images, &Options { first: Some(target.id), first_depth, ..patient() })
        .unwrap();
    let (thread, frames) = find(&storage, target.id);
    let summary = thread.summary;
    assert_eq!((summary.kept, summary.omitted_after), (60, 20));
    let repeat = summary.repeat.expect("a recursion repeats");
    // The innermost of the 20,001 calls has parked, so it stands at another place, and so does the outermost caller.
    assert_eq!((repeat.period, repeat.times), (1, 20_000));
    let returns_to_itself = frames[19];
    assert!(is_in(returns_to_itself, recurse as *const () as usize));
    let kept = frames.iter().filter(|pc| **pc == returns_to_itself).count() as u64;
    assert_eq!(kept + summary.omitted, 20_000);
    assert!(thread.copies > 1, "more than one window of 64 KiB");
    assert!(is_whole(thread.held));
}

#[test]
fn when_there_is_no_room_the_first_thread_is_served_best_and_the_rest_is_counted() {
    let (_turn, suspender) = turn();
    let target = deep(100);
    let _others: Vec<Target> = (0..6).map(|_| parked()).collect();
    static SMALL: Mutex<Snapshot<5, 40>> = Mutex::new(Snapshot::new());
    let (storage, mut snapshot) = (storage(), SMALL.lock().unwrap());
    snapshot.capture(&suspender, &storage.images, &Options { first: Some(target.id), ..patient() }).unwrap();
    let view = snapshot.view();
    assert!(view.dropped_threads >= 3, "at least eight threads, room for five");
    let kept: Vec<usize> = view.threads.iter().map(|thread| thread.summary.kept).collect();
    if view.threads[0].thread == target.id {
        assert_eq!(kept[0], 20, "half of the frames: {kept:?}");
        assert!(view.threads[0].summary.omitted > 80);
    }
    assert!(kept.iter().all(|kept| *kept > 0) && kept.iter().sum::<usize>() <= 40, "{kept:?}");
    for thread in view.threads {
        assert_eq!(view.frames(thread).len(), thread.summary.kept);
    }
}

#[test]
fn a_capture_that_runs_out_of_time_lists_what_it_could_not_stop() {
    let (_turn, suspender) = turn();
    let _targets: Vec<Target> = (0..3).map(|_| parked()).collect();
    let mut storage = storage();
    let Storage { images, snapshot } = &mut *storage;
    snapshot.capture(&suspender, images, &Options { all_within_ns: 0, ..patient() }).unwrap();
    let view = snapshot.view();
    assert!(view.threads.len() >= 4);
    // The first has its own patience.
    for thread in view.threads.iter().skip(1).filter(|thread| thread.thread != current()) {
        assert!(
            matches!(thread.held, Held::Not(_)) && thread.registers.is_none() && thread.summary.kept == 0
        );
        assert!(!thread.facts.name.bytes().is_empty(), "its name and state are there all the same");
    }
}

#[test]
fn a_first_thread_that_has_ended_keeps_its_place() {
    let (_turn, suspender) = turn();
    let ended = std::thread::spawn(current).join().unwrap();
    let mut storage = storage();
    let Storage { images, snapshot } = &mut *storage;
    snapshot.capture(&suspender, images, &Options { first: Some(ended), ..patient() }).unwrap();
    let threads = snapshot.view().threads;
    assert_eq!((threads[0].thread, threads[0].held), (ended, Held::Not(SuspendError::Gone)));
    assert!(threads[1].main);
}

#[test]
fn an_exempt_thread_is_listed_without_a_stack() {
    let (_turn, suspender) = turn();
    let target = parked();
    let exemption = exempt::exempt(target.id).unwrap();
    let mut storage = storage();
    let mut held = || {
        let Storage { images, snapshot } = &mut *storage;
        snapshot.capture(&suspender, images, &patient()).unwrap();
        find_held(&storage, target.id)
    };
    assert_eq!(held(), Held::Not(SuspendError::Exempt));
    drop(exemption);
    assert!(is_whole(held()));
}

#[test]
fn a_capture_beside_another_says_that_one_goes_on_whichever_ways_it_was_allowed() {
    let (_turn, suspender) = turn();
    let spins = spinning();
    let _session = suspender.session().unwrap();
    let mut storage = storage();
    for ways in [Ways::ALL, Ways::only(Way::Signal), Ways::only(Way::Ptrace)] {
        let Storage { images, snapshot } = &mut *storage;
        snapshot.capture_thread(&suspender, images, spins.id, &Options { ways, ..patient() });
        let held = find_held(&storage, spins.id);
        // An emulator forbids tracing, and says so.
        let forbidden = ways == Ways::only(Way::Ptrace) && held == Held::Not(SuspendError::Forbidden);
        assert!(held == Held::Not(SuspendError::Busy) || forbidden, "{ways:?}: {held:?}");
    }
}

fn find_held(storage: &Storage, id: ThreadId) -> Held {
    let view = storage.snapshot.view();
    let thread = view.threads.iter().find(|thread| thread.thread == id);
    thread.expect("the thread is listed").held
}

#[test]
fn one_thread_is_captured_alone_and_its_functions_begin_where_the_tables_say() {
    let (_turn, suspender) = turn();
    let spins = spinning();
    let mut storage = storage();
    let Storage { images, snapshot } = &mut *storage;
    snapshot.capture_thread(&suspender, images, spins.id, &patient());
    assert_eq!(snapshot.view().threads.len(), 1);
    let (thread, frames) = find(&storage, spins.id);
    assert!(is_whole(thread.held), "{thread:?}");
    let Storage { images, snapshot } = &mut *storage;
    let starts: Vec<_> = frames.iter().filter_map(|pc| snapshot.function_start(images, *pc)).collect();
    for function in [spin_inner as *const () as u64, spin_outer as *const () as u64] {
        assert!(starts.contains(&function), "{function:#x} is not in {starts:x?}");
    }
    assert_eq!(snapshot.function_start(images, 0x10), None);
}
