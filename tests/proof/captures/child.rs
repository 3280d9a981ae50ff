//! One scenario, watched.

use super::filter::{self, Otherwise};
use super::scenarios::{SCENARIOS, Stage};
use super::{calls, targets, tripwire};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What the process ends with if a call that is not listed was heard of.
pub(crate) const HEARD: i32 = 98;
/// How long a scenario may take; only a hang takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

static READY: AtomicBool = AtomicBool::new(false);
static WATCHED: AtomicU32 = AtomicU32::new(0);
/// Everybody is watched, and what the scenario begins with is done.
static GO: AtomicBool = AtomicBool::new(false);
static DONE: AtomicBool = AtomicBool::new(false);
static LISTENERS: [AtomicI32; 8] = [const { AtomicI32::new(0) }; 8];

/// Keeps a listener for the main thread, which takes no part and is not filtered.
pub(crate) fn listen(listener: i32) {
    let free = LISTENERS
        .iter()
        .find(|place| place.compare_exchange(0, listener, Ordering::Relaxed, Ordering::Relaxed).is_ok());
    assert!(listener == 0 || free.is_some(), "more threads than listeners");
}

/// For threads that are to be captured: until all have begun.
pub(crate) fn wait_for_all_to_be_ready() {
    while !READY.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn one_more_watched() {
    WATCHED.fetch_add(1, Ordering::AcqRel);
}

/// Plays one scenario under one watch, and prints how many captures it made.
pub(crate) fn run(mode: &str, scenario: &str, file: &Path) -> ExitCode {
    let scenario = SCENARIOS.iter().find(|known| known.name == scenario).unwrap();
    let otherwise = match mode {
        "syscalls" => Some(Otherwise::Kill),
        "allocations" => None,
        // A row of the table that this process does without, if there is such a row.
        row => {
            calls::omit(row.parse().unwrap_or(usize::MAX));
            Some(Otherwise::Tell)
        }
    };
    let targets = targets::start(otherwise);
    let stage = Stage::new(targets, file, scenario);
    READY.store(true, Ordering::Release);
    let body = std::thread::Builder::new().name("captures".into()).stack_size(16 << 20);
    let capturer = body.spawn(move || {
        while WATCHED.load(Ordering::Acquire) < 3 {
            std::thread::yield_now();
        }
        let mut stage = stage;
        let allowed = calls::listed(scenario.kinds);
        if let Some(otherwise) = otherwise {
            listen(filter::install(&allowed, scenario.refused, otherwise));
        } else {
            tripwire::arm();
        }
        WATCHED.fetch_add(1, Ordering::AcqRel);
        while !GO.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        (scenario.play)(&mut stage);
        DONE.store(true, Ordering::Release);
        // What ends a thread is not what this is about.
        loop {
            std::hint::spin_loop();
        }
    });
    capturer.unwrap();
    let begun = Instant::now();
    while WATCHED.load(Ordering::Acquire) < 4 {
        assert!(begun.elapsed() < PATIENCE, "{}: it does not begin", scenario.name);
        std::thread::sleep(Duration::from_millis(1));
    }
    (scenario.before)();
    GO.store(true, Ordering::Release);
    while !DONE.load(Ordering::Acquire) {
        let listeners = LISTENERS.iter().map(|listener| listener.load(Ordering::Relaxed));
        if let Some(call) = listeners.filter(|listener| *listener > 0).find_map(filter::heard) {
            eprintln!("{call}");
            for listener in LISTENERS
                .iter()
                .map(|listener| listener.load(Ordering::Relaxed))
                .filter(|listener| *listener > 0)
            {
                // The helper shares our descriptors and outlives us: with nobody listening, its call fails and it ends.
                // SAFETY: no pointers, and nobody uses them any more.
                unsafe { libc::close(listener) };
            }
            // SAFETY: may be called anywhere.
            unsafe { libc::_exit(HEARD) };
        }
        assert!(begun.elapsed() < PATIENCE, "{}: it does not end", scenario.name);
        std::thread::sleep(Duration::from_millis(1));
    }
    let (captures, expected) = super::scenarios::counted();
    println!("captures {captures} {expected}");
    // SAFETY: may be called anywhere; nothing is to be cleaned up.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(0)
    }
}
