//! On real threads: the loop is this thread. Bounds on real time are wide.

mod hooks;
#[cfg(target_os = "linux")]
mod locks;
mod loops;
mod reports;

use super::{NO_CALLS, Scenario, scenario};
use freezeframe_monitor::{
    Activity, AppState, Beacon, Builder, Cause, Freeze, Monitor, Phase, Ping, PingTarget, Severity,
    StartError,
};
use freezeframe_report::file::Size;
use freezeframe_report::read::{CauseKind, Frame as ReadFrame, Record, RecordKind, Report, SeverityLevel};
use freezeframe_report::show::Symbols;
use freezeframe_unwind::threads::current;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

pub(crate) fn file() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name =
        format!("freezeframe-scenario-{}-{}.ffr", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    std::env::temp_dir().join(name)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Reads the records, names their functions, and removes the file.
fn records(file: &Path) -> Vec<Record> {
    let mut report = Report::open(file).unwrap();
    assert!(report.is_whole(), "{:?} {:?}", report.torn, report.records);
    std::fs::remove_file(file).unwrap();
    let mut symbols = Symbols::new();
    report.records.iter_mut().for_each(|record| symbols.name_frames(record));
    report.records
}

/// What the program heard.
type Heard = Arc<Mutex<Vec<(Phase, Severity, Cause, bool)>>>;

fn hear(builder: Builder) -> (Builder, Heard) {
    let heard = Heard::default();
    let hears = heard.clone();
    let note = move |freeze: &Freeze<'_>| {
        let what = (freeze.phase, freeze.severity, freeze.cause, freeze.counted);
        hears.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    };
    (builder.on_freeze(note), heard)
}

/// One turn whose callback is `work`, and a wait after it.
fn turn(beacon: &Beacon, work: impl FnOnce()) {
    beacon.transition(Activity::AfterWaiting);
    work();
    beacon.transition(Activity::BeforeWaiting);
    std::thread::sleep(ms(120));
}

/// What a loop leaves behind that does `work` in its callbacks.
fn watched(
    set: impl FnOnce(Builder) -> Builder,
    work: impl FnOnce(&Monitor, &Beacon),
) -> (Vec<Record>, Monitor) {
    // The watcher of the scenario before may still wait for a hook.
    while matches!(Monitor::builder("probe").watch_run_loop(), Err(StartError::AlreadyWatched)) {
        std::thread::sleep(ms(5));
    }
    let path = file();
    let builder = set(Monitor::builder("scenario").report_file(&path, Size::default()));
    let (monitor, beacon) = builder.watch_run_loop().unwrap();
    beacon.transition(Activity::Entry);
    beacon.transition(Activity::BeforeWaiting);
    std::thread::sleep(ms(60));
    work(&monitor, &beacon);
    drop(beacon);
    std::thread::sleep(ms(120));
    (records(&path), monitor)
}

/// A name on the heaviest stack of a record.
fn leads_with(record: &Record, name: &str) -> bool {
    let stacks = record.samples.as_ref().map(|samples| &samples.stacks[..]).unwrap_or(&[]);
    let frames = stacks.first().map(|stack| &stack.frames[..]).unwrap_or(&[]);
    frames.iter().filter_map(|frame| frame.symbol.as_ref()).any(|symbol| symbol.name.contains(name))
}

fn cause_of(record: &Record) -> Option<CauseKind> {
    record.episode.as_ref().map(|episode| episode.cause)
}

fn labels_of(record: &Record) -> Vec<&'static str> {
    record.episode.as_ref().map(|episode| episode.labels.clone()).unwrap_or_default()
}

#[inline(never)]
fn short_part() {
    std::thread::sleep(ms(230));
    black_box(());
}

#[inline(never)]
fn long_part() {
    std::thread::sleep(ms(700));
    black_box(());
}

/// While it lives, the calling thread takes no signals.
struct Deaf(libc::sigset_t);

impl Deaf {
    fn new() -> Self {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: both have room for a set; the first is filled before it is read.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr()), 0);
            Self(before.assume_init())
        }
    }
}

impl Drop for Deaf {
    fn drop(&mut self) {
        // SAFETY: a set that the thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

/// Whose frame has such a local is found from its frame pointer only.
#[repr(align(256))]
struct Aligned(u8);

/// Whether it took its time.
#[inline(never)]
fn polls_for(ms: i32) -> bool {
    let local = black_box(Aligned(0));
    // SAFETY: no descriptors.
    let polled = unsafe { libc::poll(std::ptr::null_mut(), local.0.into(), ms) };
    black_box(&local);
    polled == 0
}

#[inline(never)]
fn what_comes_next() {
    std::thread::sleep(ms(30));
    black_box(());
}

#[inline(never)]
fn both_parts() {
    short_part();
    long_part();
    black_box(());
}

#[inline(never)]
fn computes_for(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        black_box((0..1000u32).fold(0, |sum: u32, n| sum.wrapping_add(n)));
    }
}

/// A queue that no loop serves while it says that it waits: nested in a mode of its own.
#[derive(Clone)]
struct Queue {
    pings: Arc<Mutex<Vec<Ping>>>,
    posted: Arc<AtomicU32>,
    waits: Arc<AtomicBool>,
}

impl PingTarget for Queue {
    fn post(&mut self, ping: Ping) {
        self.posted.fetch_add(1, Ordering::SeqCst);
        self.pings.lock().unwrap().push(ping);
    }

    fn is_waiting(&self) -> bool {
        self.waits.load(Ordering::SeqCst)
    }
}

impl Queue {
    fn new(waits: bool) -> Self {
        Self { pings: Arc::default(), posted: Arc::default(), waits: Arc::new(AtomicBool::new(waits)) }
    }

    fn serve(&self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            let pings = std::mem::take(&mut *self.pings.lock().unwrap());
            pings.into_iter().for_each(Ping::answer);
            std::thread::sleep(ms(2));
        }
    }
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = loops::scenarios();
    all.extend(reports::scenarios());
    all.extend(hooks::scenarios());
    #[cfg(target_os = "linux")]
    all.extend(locks::scenarios());
    all
}
