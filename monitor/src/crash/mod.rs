//! Reports of crashes: the signals that end a program.
//!
//! The thread that has crashed comes first, from the registers that the signal has interrupted, then all others. The record
//! goes to the slot of the report file that is kept for it. Then the program goes on to die as it would have without this:
//! the earlier handlers are put back, and the signal comes again.
//!
//! ```no_run
//! use freezeframe_monitor::crash::Reporter;
//! use freezeframe_report::file::Size;
//!
//! // At the start of the program, before other threads.
//! Reporter::to_file("reports.ffr", Size::default()).app("com.example.app", "1.0").install()?;
//! # Ok::<(), freezeframe_monitor::crash::InstallError>(())
//! ```
//!
//! What it reports: SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP and SIGSYS, whoever has sent them. A Rust panic is no
//! crash, unless it ends in an abort. The first crash of a process is reported; a second one that comes before the end
//! is part of its record.
//!
//! Nothing is allocated and no lock is waited for, so that it works with a corrupted heap, inside the allocator, and while a
//! freeze is captured or a freeze's callback runs. It takes two seconds, if threads refuse to be stopped, and
//! normally a few milliseconds; longer where hundreds of threads fight for the processors.
//!
//! - A stack overflow leaves no stack to handle it on: the thread needs an alternate one, as Rust's threads have it. For
//!   others there is [`protect_this_thread`].
//! - Handlers that are installed later come first, and decide whether this one hears of the signal.
//! - A runtime that handles such signals itself in the course of things (Java's, Go's) has to be started before, and its
//!   signals end up in a report that is none.

mod handler;
mod kept;
mod memory;
mod signals;
mod stack;
mod writer;

pub use stack::{Protection, protect_this_thread};

use crate::facts::Facts;
use crate::files;
use crate::subject::Subject;
use freezeframe_report::file::{FileError, Size};
use freezeframe_unwind::init::{Config, InitError, init};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use writer::Writer;

/// Why crashes will not be reported.
#[derive(Debug)]
#[non_exhaustive]
pub enum InstallError {
    /// They are reported already: a process has one reporter.
    AlreadyInstalled,
    /// The report file cannot be used.
    File(FileError),
    /// Threads cannot be stopped.
    Init(InitError),
    /// The system refused something.
    System(std::io::Error),
}

impl std::fmt::Display for InstallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AlreadyInstalled => write!(f, "crashes of this process are reported already"),
            Self::File(error) => error.fmt(f),
            Self::Init(error) => error.fmt(f),
            Self::System(error) => write!(f, "the handlers of crashes could not be set up: {error}"),
        }
    }
}

impl std::error::Error for InstallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::AlreadyInstalled => None,
            Self::File(error) => Some(error),
            Self::Init(error) => Some(error),
            Self::System(error) => Some(error),
        }
    }
}

/// Reports the process's crash, once it is [installed](Self::install).
#[derive(Debug)]
#[must_use = "nothing is reported before it is installed"]
pub struct Reporter {
    path: PathBuf,
    size: Size,
    app: (String, String),
    init: Config,
    others_within: Duration,
}

impl Reporter {
    /// The file that takes the report: made if there is none, added to if there is. Monitors of this process may write to
    /// the same one.
    pub fn to_file(path: impl Into<PathBuf>, size: Size) -> Self {
        let (app, init) = (Default::default(), Config::default());
        Self { path: path.into(), size, app, init, others_within: Duration::from_secs(1) }
    }

    /// The program's identifier and version. The default is the executable's name.
    pub fn app(mut self, identifier: &str, version: &str) -> Self {
        self.app = (identifier.to_owned(), version.to_owned());
        self
    }

    /// What sets up the suspension of threads: which signal is used.
    pub fn suspension(mut self, config: Config) -> Self {
        self.init = config;
        self
    }

    /// How long the process may take to end because of its other threads: each has a tenth of this time to stop. Those
    /// that do not are in the report without a stack. The default is one second.
    pub fn others_within(mut self, time: Duration) -> Self {
        self.others_within = time;
        self
    }

    /// Installs the handlers, for good, and [protects](protect_this_thread) the calling thread.
    ///
    /// # Errors
    /// See [`InstallError`]. Nothing is left behind then, but for a report file.
    pub fn install(self) -> Result<(), InstallError> {
        static INSTALLED: AtomicBool = AtomicBool::new(false);
        if INSTALLED.swap(true, Ordering::AcqRel) {
            return Err(InstallError::AlreadyInstalled);
        }
        self.try_install().inspect_err(|_| INSTALLED.store(false, Ordering::Release))
    }

    fn try_install(self) -> Result<(), InstallError> {
        let facts = Facts::read(Subject::Own).map_err(InstallError::System)?;
        let suspender = init(self.init).map_err(InstallError::Init)?;
        let file = files::open(&self.path, self.size, facts.owner).map_err(InstallError::File)?;
        let others_within_ns = self.others_within.as_nanos().try_into().unwrap_or(u64::MAX);
        let writer = Writer::new(facts, self.app, suspender, others_within_ns, file);
        let writer = writer.map_err(InstallError::System)?;
        let protection = protect_this_thread().map_err(InstallError::System)?;
        handler::install(writer, self.init.signal).map_err(InstallError::System)?;
        std::mem::forget(protection);
        Ok(())
    }
}
