//! A process of its own for each test, threads in it, and captures in bounded time.

use crate::common::{Target, is_in, parked, spin_inner, spinning, start};
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::init::{Config, init};
use freezeframe_unwind::snapshot::{Held, Options, Set, Snapshot, ThreadCapture};
use freezeframe_unwind::suspend::{Patience, Purpose, Suspender};
use freezeframe_unwind::threads::ThreadId;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The case of a test, as the process of its own is told.
pub(crate) const CASE: &str = "FREEZEFRAME_CHAOS_CASE";
/// What that process says first.
const ALONE: &str = "alone";

/// Runs the test that `body` is part of again in a process of its own, which calls it; `beside` is called meanwhile.
pub(crate) fn alone<B: FnOnce(usize)>(case: usize, body: B, beside: impl FnOnce(&mut Child)) {
    if let Ok(case) = std::env::var(CASE) {
        println!("\n{ALONE}");
        return body(case.parse().unwrap());
    }
    // `chaos::module::test::{{closure}}`
    let path = std::any::type_name::<B>();
    let test = path.split_once("::").and_then(|(_, test)| test.rsplit_once("::")).unwrap().0;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CASE, case.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    beside(&mut child);
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(status.success(), "case {case} of {test}: {status}\n{errors}");
    // Who has taken it has read from it what only the test can have said.
    if let Some(mut said) = child.stdout.take() {
        let mut text = String::new();
        said.read_to_string(&mut text).unwrap();
        assert!(text.lines().any(|line| line == ALONE), "there is no such test: {test}\n{text}");
    }
}

/// Waits, runs, and runs with every signal blocked: the one only a tracer reaches.
pub(crate) struct Threads {
    pub(crate) waits: Target,
    pub(crate) runs: Target,
    pub(crate) deaf: Target,
}

impl Threads {
    pub(crate) fn start() -> Self {
        Self { waits: parked(), runs: spinning(), deaf: deaf() }
    }

    /// All of them go on.
    pub(crate) fn assert_go_on(&self) {
        for target in [&self.runs, &self.deaf] {
            let (before, begun) = (target.turns.load(Ordering::SeqCst), Instant::now());
            while target.turns.load(Ordering::SeqCst) == before {
                assert!(begun.elapsed() < Duration::from_secs(20), "a thread was left standing");
                std::thread::yield_now();
            }
        }
    }
}

/// Runs with every signal blocked.
pub(crate) fn deaf() -> Target {
    let deaf = start("is deaf", |stop: &AtomicBool, turns: &AtomicU64| {
        block_signals();
        spin_inner(stop, turns);
    });
    while deaf.turns.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    deaf
}

fn block_signals() {
    // SAFETY: a set of the calling thread's own mask.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
    }
}

/// What a capture held: of each thread also the addresses of its frames.
pub(crate) struct Captured {
    pub(crate) threads: Vec<(ThreadCapture, Vec<u64>)>,
    pub(crate) set: Set,
}

impl Captured {
    pub(crate) fn thread(&self, id: ThreadId) -> ThreadCapture {
        self.threads.iter().find(|(thread, _)| thread.thread == id).expect("the thread is listed").0
    }

    pub(crate) fn is_in(&self, id: ThreadId, function: usize) -> bool {
        let mut threads = self.threads.iter().filter(|(thread, _)| thread.thread == id);
        threads.any(|(_, addresses)| addresses.iter().any(|address| is_in(*address, function)))
    }

    pub(crate) fn held(&self, id: ThreadId) -> Held {
        self.thread(id).held
    }
}

pub(crate) static STORAGE: Mutex<(ImageTable, Snapshot<64, 4096, { 1 << 20 }>)> =
    Mutex::new((ImageTable::new(), Snapshot::new()));

/// Captures, in bounded time.
pub(crate) fn capture(suspender: &Suspender, options: Options<'_>) -> Captured {
    let mut storage = STORAGE.lock().unwrap();
    let (images, snapshot) = &mut *storage;
    // An older table is good enough: nothing is loaded meanwhile.
    let _ = images.refresh();
    let begun = Instant::now();
    snapshot.capture(suspender, images, &options).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let view = snapshot.view();
    let addresses = |thread| view.frames(thread).iter().map(|frame| frame.address.lookup()).collect();
    let threads = view.threads.iter().map(|thread| (*thread, addresses(thread))).collect();
    Captured { threads, set: view.set }
}

pub(crate) fn one_by_one() -> Options<'static> {
    let patience = Patience { stop_within_ns: 1_000_000_000, hold_at_most_ns: 1_000_000_000 };
    let (first_patience, other_patience) = (patience, patience);
    Options { first_patience, other_patience, all_within_ns: 5_000_000_000, ..Options::default() }
}

pub(crate) fn together() -> Options<'static> {
    Options { purpose: Purpose::AllTogether, ..one_by_one() }
}

pub(crate) fn ready() -> Suspender {
    init(Config::default()).unwrap()
}

/// Gives up root's rights, which would open what is to be closed here.
pub(crate) fn become_nobody() {
    // SAFETY: plain calls.
    unsafe {
        if libc::getuid() == 0 {
            assert_eq!((libc::setgid(65534), libc::setuid(65534)), (0, 0));
        }
        // A change of user has taken this away.
        assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1), 0);
    }
}
