//! What the tests share: a program, its monitor and the report file.

use crate::program::Library;
use freezeframe_monitor::{Builder, MainContext, Monitor, Statistics};
use freezeframe_report::file::Size;
use freezeframe_report::read::{Record, Report};
use freezeframe_report::show::Symbols;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One timeout of a monitor that is to notice a freeze. Five make one.
const INTERVAL: Duration = Duration::from_millis(20);

/// Whether the program has blocked or lingered for long enough.
type Enough = Mutex<Box<dyn FnMut() -> bool + Send>>;

/// A program with a context of its own, to be run by the test's thread.
pub(crate) struct Stage {
    library: &'static Library,
    program: *mut c_void,
    /// What the program asks.
    enough: Box<Enough>,
    monitor: RefCell<Option<Arc<Monitor>>>,
    file: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Stage {
    /// None, with a word why, where the program cannot be built.
    pub(crate) fn new() -> Option<Self> {
        Self::with_context(false)
    }

    /// With the global default context.
    pub(crate) fn global() -> Option<Self> {
        Self::with_context(true)
    }

    fn with_context(global: bool) -> Option<Self> {
        /// One test at a time: they measure what the others would disturb.
        static TURN: Mutex<()> = Mutex::new(());
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let library = match Library::get() {
            Ok(library) => library,
            Err(why) => {
                let test = std::thread::current();
                eprintln!("{}: skipped, {why}", test.name().unwrap_or("a test"));
                return None;
            }
        };
        let enough = Box::new(Enough::new(Box::new(|| true)));
        let asked = std::ptr::from_ref::<Enough>(&enough).cast_mut().cast();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Some(Self {
            library,
            program: library.new_program(global, is_enough, asked),
            enough,
            monitor: RefCell::default(),
            file: std::env::temp_dir().join(format!("freezeframe-glib-{}-{number}.ffr", std::process::id())),
            _turn: turn,
        })
    }

    pub(crate) fn context(&self) -> MainContext {
        // SAFETY: the program's, which lives.
        unsafe { MainContext::from_raw(self.library.call("program_context", self.program)) }
            .expect("GLib is loaded")
    }

    pub(crate) fn builder(&self) -> Builder {
        Monitor::builder("glib").report_file(&self.file, Size::default())
    }

    pub(crate) fn watch(&self) {
        self.set(self.builder().interval(INTERVAL).watch_glib(&self.context()).unwrap());
    }

    pub(crate) fn set(&self, monitor: Monitor) {
        assert!(self.monitor.replace(Some(Arc::new(monitor))).is_none());
    }

    pub(crate) fn stop(&self) {
        *self.enough.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(|| true);
        drop(self.monitor.take());
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.monitor.borrow().as_ref().expect("a monitor watches").statistics()
    }

    /// Runs a function of the program, with an answer to what it asks.
    pub(crate) fn run_until(&self, function: &str, enough: impl FnMut() -> bool + Send + 'static) {
        *self.enough.lock().unwrap() = Box::new(enough);
        self.library.call(function, self.program);
    }

    /// Runs it for so long.
    pub(crate) fn run_for(&self, function: &str, duration: Duration) {
        let begun = Instant::now();
        self.run_until(function, move || begun.elapsed() >= duration);
    }

    /// Runs it until the watcher has not woken up for so long.
    pub(crate) fn run_until_parked(&self, function: &str, quiet: Duration) {
        let monitor = self.monitor.borrow().clone().expect("a monitor watches");
        let (mut known, mut since, begun) = (u64::MAX, Instant::now(), Instant::now());
        self.run_until(function, move || {
            let wakeups = monitor.statistics().wakeups;
            if std::mem::replace(&mut known, wakeups) != wakeups {
                since = Instant::now();
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "the watcher still wakes up: {wakeups} times");
            since.elapsed() >= quiet
        });
    }

    /// Runs a function that blocks, until that is in the report file, or a minute has passed.
    pub(crate) fn run_blocking(&self, function: &str) {
        let (file, begun) = (self.file.clone(), Instant::now());
        let mut before = None;
        self.run_until(function, move || {
            let recorded = recorded(&file);
            recorded > *before.get_or_insert(recorded) || begun.elapsed() > Duration::from_secs(60)
        });
    }

    /// The same, watched. Gives the one record of it.
    pub(crate) fn freeze(&self, function: &str) -> Frozen {
        self.watch();
        self.run_blocking(function);
        self.stop();
        let mut records = self.records();
        assert_eq!(records.len(), 1, "{function}");
        Frozen(records.remove(0))
    }

    /// The records of what was blocked by the program: on a starved machine, there may be others.
    pub(crate) fn records(&self) -> Vec<Record> {
        let mut report = Report::open(&self.file).unwrap();
        assert!(report.is_whole());
        let mut symbols = Symbols::new();
        report.records.iter_mut().for_each(|record| symbols.name_frames(record));
        report.records.retain(|record| names(record).contains(&"block_for_too_long"));
        report.records
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop();
        self.library.call("program_free", self.program);
        let _ = std::fs::remove_file(&self.file);
    }
}

unsafe extern "C" fn is_enough(asked: *mut c_void) -> c_int {
    // SAFETY: the stage's, which outlives the program.
    let enough = unsafe { &*asked.cast_const().cast::<Enough>() };
    c_int::from((enough.lock().unwrap_or_else(PoisonError::into_inner))())
}

fn recorded(file: &Path) -> usize {
    Report::open(file).map_or(0, |report| report.records.len())
}

/// The names in the watched thread's stack, innermost first.
fn names(record: &Record) -> Vec<&str> {
    let frames = &record.watched().expect("the watched thread is in the record").frames;
    frames.iter().filter_map(|frame| frame.symbol.as_ref()).map(|symbol| symbol.name.as_str()).collect()
}

/// The record of a freeze.
pub(crate) struct Frozen(pub(crate) Record);

impl Frozen {
    /// That was the last activity that the monitor knew of.
    pub(crate) fn after(self, activity: &str) -> Self {
        assert_eq!(self.0.last_activity, Some(activity));
        self
    }

    /// These functions are in the stack, in this order from the innermost one on.
    pub(crate) fn inside(self, functions: &[&str]) -> Self {
        let names = names(&self.0);
        let found: Vec<_> = names.iter().copied().filter(|name| functions.contains(name)).collect();
        assert_eq!(found, functions, "{names:#?}");
        self
    }

    /// So many runs of the loop were nested in each other, as of its last turn.
    pub(crate) fn at_depth(self, depth: u32) -> Self {
        assert_eq!(self.0.episode.as_ref().map(|episode| episode.depth), Some(depth));
        self
    }
}
