//! Captures one after the other in a process that starts, ends and forks threads and processes, loads and unloads
//! libraries, allocates, and blocks signals: nothing hangs, nobody is left standing, and a stack that was torn is marked.
//!
//! `FREEZEFRAME_CAPTURES` says how many; a hundred thousand take some minutes (`--release`).
#![cfg(any(target_os = "linux", target_os = "android"))]

mod common;

use common::{deaf, turn};
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::snapshot::{Held, Options, Snapshot};
use freezeframe_unwind::suspend::{Patience, Purpose, SuspendError, Way, Ways};
use freezeframe_unwind::threads::{RunState, ThreadId, current, facts};
use freezeframe_unwind::walk::StopReason;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a worker does once.
type Work = fn();

const WORKERS: [(&str, Work); 9] = [
    ("begins threads", || std::thread::spawn(|| black_box(())).join().unwrap()),
    ("forks", fork),
    ("runs programs", run_program),
    ("loads libraries", load_library),
    ("allocates", || drop(black_box(vec![0u8; 70_000]))),
    ("sleeps", || std::thread::sleep(Duration::from_micros(200))),
    ("is deaf for moments", be_deaf),
    ("dances", dance),
    ("dances again", dance),
];

fn fork() {
    // SAFETY: the child ends at once.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(0);
        }
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    std::thread::sleep(Duration::from_micros(500));
}

fn run_program() {
    let none = || Stdio::null();
    let _ = Command::new("true").stdin(none()).stdout(none()).stderr(none()).status();
    std::thread::sleep(Duration::from_millis(1));
}

fn load_library() {
    // SAFETY: a library of the C library's that has no state; it may be missing.
    unsafe {
        let library = libc::dlopen(c"libanl.so.1".as_ptr(), libc::RTLD_NOW);
        if !library.is_null() {
            libc::dlclose(library);
        }
    }
}

fn be_deaf() {
    // SAFETY: sets of the calling thread's own mask.
    unsafe {
        let (mut all, mut old) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        std::thread::sleep(Duration::from_micros(100));
        libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut());
    }
}

/// Its stack changes at each moment, and is whole at each: a walk always comes to its end.
fn dance() {
    black_box(ping(black_box(40)));
}

#[inline(never)]
fn ping(depth: u64) -> u64 {
    if depth == 0 { 0 } else { pong(black_box(depth - 1)) + 1 }
}

#[inline(never)]
fn pong(depth: u64) -> u64 {
    let room = black_box([depth; 5]);
    if depth == 0 { 1 } else { ping(black_box(depth - 1)) + room[2] }
}

struct Worker {
    name: &'static str,
    id: ThreadId,
    turns: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

fn start(stop: &Arc<AtomicBool>) -> Vec<Worker> {
    let start = |(name, work): (&'static str, Work)| {
        let (stop, turns) = (stop.clone(), Arc::new(AtomicU64::new(0)));
        let (send, receive) = mpsc::channel();
        let counted = turns.clone();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            send.send(current()).unwrap();
            while !stop.load(Ordering::Relaxed) {
                work();
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Worker { name, id: receive.recv().unwrap(), turns, thread: thread.unwrap() }
    };
    WORKERS.into_iter().map(start).collect()
}

static STORAGE: Mutex<(ImageTable, Snapshot<128, 8192, { 1 << 20 }>)> =
    Mutex::new((ImageTable::new(), Snapshot::new()));

#[test]
fn captures_under_load_hang_nobody_and_mark_what_is_torn() {
    if !deaf().is_empty() {
        // Seen under qemu-user: 400 captures passed once; another time, after 40, a worker stood still for a minute and the
        // process never ended. Whose fault that is has not been found.
        println!("skipped: an emulator, told by a deaf thread of its own");
        return;
    }
    let captures = std::env::var("FREEZEFRAME_CAPTURES").ok().and_then(|count| count.parse().ok());
    let captures: u64 = captures.unwrap_or(400);
    let (_turn, suspender) = turn();
    let stop = Arc::new(AtomicBool::new(false));
    let workers = start(&stop);
    let mut storage = STORAGE.lock().unwrap();
    let (images, snapshot) = &mut *storage;
    let mut ways: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut longest, mut short) = (Duration::ZERO, 0);
    for round in 0..captures {
        images.refresh().unwrap();
        // From so impatient that most threads do not stop in time to patient; from torn to whole.
        let patience =
            Patience { stop_within_ns: 30_000 << (round % 10), hold_at_most_ns: 2_000 << (round / 10 % 12) };
        let purpose = if round % 3 == 0 { Purpose::AllTogether } else { Purpose::OneThread };
        let allowed = if round % 7 == 0 { Ways::only(Way::Signal) } else { Ways::ALL };
        let options = Options {
            first: Some(workers[round as usize % workers.len()].id),
            purpose,
            ways: allowed,
            first_patience: patience,
            other_patience: patience,
            all_within_ns: 300_000_000,
            ..Options::default()
        };
        let begun = Instant::now();
        snapshot.capture(&suspender, images, &options).unwrap();
        longest = longest.max(begun.elapsed());
        let view = snapshot.view();
        assert_eq!(view.dropped_threads, 0);
        for worker in &workers {
            let thread = view.threads.iter().find(|thread| thread.thread == worker.id);
            let thread = thread.unwrap_or_else(|| panic!("{} is not listed", worker.name));
            let way = match thread.held {
                Held::Peek => "peek",
                Held::Signal { .. } => "signal",
                Held::Ptrace { .. } => "ptrace",
                Held::Torn => "torn",
                Held::Not(SuspendError::OutOfTime) => "no time left",
                Held::Not(_) => "none",
                other => panic!("{}: {other:?}", worker.name),
            };
            *ways.entry(way).or_default() += 1;
            let whole = !matches!(thread.held, Held::Not(_) | Held::Torn);
            if whole && worker.name.starts_with("dances") {
                let (frames, stop) = (view.frames(thread), thread.summary.stop);
                let cut_short = match (thread.held, stop) {
                    // A tracer copies one piece of a stack: it may have met the thread in a handler, on another.
                    (Held::Ptrace { .. }, StopReason::Unreadable(_)) => true,
                    // Nothing else worked for a thread that waits for a page, of which two registers are known; or whose
                    // stack goes on elsewhere, beneath our handler, and that had run before it could be looked at again.
                    (Held::Peek, StopReason::NoRule(_) | StopReason::Unreadable(_)) => true,
                    _ => false,
                };
                assert!(stop == StopReason::EndOfStack || cut_short, "{round}: {thread:?} {frames:#x?}");
                short += u64::from(cut_short);
            }
        }
    }
    println!(
        "{captures} captures, the longest took {longest:?}; {short} stacks cut short; threads by way: {ways:?}"
    );
    // A capture may also wait for its processor, on a machine that has none to spare.
    assert!(longest < Duration::from_secs(20), "{longest:?}");
    let before: Vec<u64> = workers.iter().map(|worker| worker.turns.load(Ordering::SeqCst)).collect();
    let begun = Instant::now();
    for (worker, before) in workers.iter().zip(before) {
        while worker.turns.load(Ordering::SeqCst) == before {
            assert!(begun.elapsed() < Duration::from_secs(60), "{} was left standing", worker.name);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let id = task.unwrap().file_name().to_str().unwrap().parse().unwrap();
        assert_ne!(facts(ThreadId(id)).state, RunState::Stopped, "{id}");
        let status = std::fs::read_to_string(format!("/proc/self/task/{id}/status")).unwrap_or_default();
        assert!(!status.contains("TracerPid:") || status.contains("TracerPid:\t0\n"), "{status}");
    }
    stop.store(true, Ordering::Relaxed);
    workers.into_iter().for_each(|worker| worker.thread.join().unwrap());
}
