//! Runs the program that crashes in a child process, and reads what it leaves.

use super::program::FAULT;
use freezeframe_report::read::{HeldHow, Record, RecordKind, RecordOutcome, RecordStrategy, Report, Thread};
use freezeframe_report::show::Symbols;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Which way to crash, and which file to report to, as the child is told.
pub(crate) const WAY: &str = "FREEZEFRAME_TEST_CRASH";
pub(crate) const FILE: &str = "FREEZEFRAME_TEST_FILE";

/// A folder that goes away.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("freezeframe-crash-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("r")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn runner() -> Option<String> {
    let name = format!("CARGO_TARGET_{}_UNKNOWN_LINUX_GNU_RUNNER", std::env::consts::ARCH.to_uppercase());
    std::env::var(name).ok()
}

pub(crate) fn emulated() -> bool {
    runner().is_some()
}

pub(crate) fn start(folder: &Folder, way: &str) -> Child {
    let this = std::env::current_exe().unwrap();
    let mut command = match runner() {
        Some(runner) => {
            let mut words = runner.split_whitespace();
            let mut command = Command::new(words.next().unwrap());
            command.args(words).arg(this);
            command
        }
        None => Command::new(this),
    };
    command
        .args(["the_program_that_crashes", "--exact", "--nocapture", "--test-threads=1"])
        .env(WAY, way)
        .env(FILE, folder.file())
        .current_dir(&folder.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A process that hangs is the worst that a crash handler can make of one.
pub(crate) fn end(child: &mut Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("it did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn run(folder: &Folder, way: &str) -> ExitStatus {
    end(&mut start(folder, way))
}

pub(crate) fn records(folder: &Folder) -> Vec<Record> {
    let mut report = Report::open(&folder.file()).unwrap();
    let faults: Vec<_> = report.records.iter().map(|record| &record.faults).collect();
    assert!(report.is_whole(), "{:?} {faults:?}", report.torn);
    let mut symbols = Symbols::new();
    report.records.iter_mut().for_each(|record| symbols.name_frames(record));
    report.records
}

/// The one record of a crash, of which everything is there.
pub(crate) fn crash(folder: &Folder) -> Record {
    let mut records = records(folder);
    records.retain(|record| record.kind == RecordKind::Crash);
    assert_eq!(records.len(), 1);
    let record = records.remove(0);
    assert_eq!((record.strategy, record.outcome), (RecordStrategy::Signal, RecordOutcome::Killed));
    assert_eq!(record.process.as_ref().unwrap().app, "test.crash");
    let first = &record.threads[0];
    assert!(first.watched && first.held.how == HeldHow::Itself && first.state == "running");
    assert_eq!(record.threads.iter().filter(|thread| thread.watched).count(), 1);
    record
}

pub(crate) fn names(thread: &Thread) -> Vec<&str> {
    thread.frames.iter().filter_map(|f| f.symbol.as_ref()).map(|s| s.name.as_str()).collect()
}

#[track_caller]
pub(crate) fn assert_on_stack(thread: &Thread, function: &str) {
    let names = names(thread);
    assert!(
        names.iter().any(|name| name.contains(function)),
        "{function}: {names:#?} {:?} {:?}",
        thread.stop,
        thread.held
    );
}

pub(crate) fn thread<'a>(record: &'a Record, name: &str) -> &'a Thread {
    record.threads.iter().find(|thread| thread.name == name).expect("the thread is there")
}

/// What every report must have: the function that crashed, and the other thread's stack down to its end.
#[track_caller]
pub(crate) fn assert_complete(record: &Record, crashed_in: &str) {
    assert_on_stack(&record.threads[0], crashed_in);
    let companion = thread(record, "companion");
    assert_on_stack(companion, "companion_waits");
    assert_eq!(companion.stop.code, 1, "{:?}", companion.stop);
}

pub(crate) fn says(record: &Record) -> (&str, &str, Option<u64>) {
    let crash = record.crash.as_ref().expect("the signal is known");
    (&crash.name, &crash.code_name, crash.address)
}

pub(crate) const NULL_WRITE: (&str, &str, Option<u64>) = ("SIGSEGV", "SEGV_MAPERR", Some(FAULT as u64));
