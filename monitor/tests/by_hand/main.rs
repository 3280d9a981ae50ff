//! Loops whose programs tell the beacon: an async runtime by its hooks, and a loop that calls a handler before and after its
//! waits. Bounds on real time are wide.
#![cfg(any(target_os = "linux", target_os = "macos"))]

mod handler;
mod runtime;

use freezeframe_monitor::{Builder, Monitor};
use freezeframe_report::file::Size;
use freezeframe_report::read::{Record, Report};
use freezeframe_report::show::Symbols;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Long enough for several freezes.
const LONG: Duration = Duration::from_millis(1200);

/// A report file, and one test at a time: they measure what the others would disturb.
struct Stage {
    file: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Stage {
    fn new() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let file = std::env::temp_dir().join(format!("freezeframe-hand-{}-{number}.ffr", std::process::id()));
        Self { file, _turn: turn }
    }

    fn builder(&self) -> Builder {
        Monitor::builder("by hand").report_file(&self.file, Size::default())
    }

    /// The records of what happened in a function: on a starved machine, there may be others.
    fn records(&self, function: &str) -> Vec<Record> {
        let mut report = Report::open(&self.file).unwrap();
        assert!(report.is_whole());
        let mut symbols = Symbols::new();
        report.records.iter_mut().for_each(|record| symbols.name_frames(record));
        report.records.retain(|record| {
            let frames = &record.watched().expect("the watched thread is in the record").frames;
            frames
                .iter()
                .filter_map(|frame| frame.symbol.as_ref())
                .any(|symbol| symbol.name.contains(function))
        });
        report.records
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Does not return until one more freeze is in the file, or a minute has passed.
#[inline(never)]
fn block_for_too_long(file: &Path) {
    let recorded = || Report::open(file).map_or(0, |report| report.records.len());
    let (before, begun) = (recorded(), Instant::now());
    while recorded() == before && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::hint::black_box(());
}
