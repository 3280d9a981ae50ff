//! Setting up a monitor.

use crate::detect::Threshold;
use crate::facts::Facts;
use crate::files;
use crate::freeze::Freeze;
use crate::monitor::Monitor;
use crate::record::Recorder;
use crate::registry::Registration;
use crate::watch::{Beacon, BeaconShared, Control, PingSource, PingTarget, Source, Watcher};
use freezeframe_report::file::{FileError, Size};
use freezeframe_unwind::init::{Config, InitError, init};
use freezeframe_unwind::threads::{ThreadId, current};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Why a monitor did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The loop is watched already; stop that monitor first.
    AlreadyWatched,
    /// The threshold makes no sense.
    Threshold(&'static str),
    /// The report file cannot be used.
    File(FileError),
    /// Threads cannot be stopped.
    Init(InitError),
    /// The system refused something.
    System(std::io::Error),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AlreadyWatched => {
                write!(f, "this thread's loop is watched already: stop that monitor first")
            }
            Self::Threshold(what) => write!(f, "unusable threshold: {what}"),
            Self::File(error) => error.fmt(f),
            Self::Init(error) => error.fmt(f),
            Self::System(error) => write!(f, "the watcher could not be started: {error}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::AlreadyWatched | Self::Threshold(_) => None,
            Self::File(error) => Some(error),
            Self::Init(error) => Some(error),
            Self::System(error) => Some(error),
        }
    }
}

/// A monitor that has not started yet. See [`Monitor::builder`].
#[must_use]
pub struct Builder {
    component: String,
    app: String,
    version: String,
    threshold: Threshold,
    file: Option<(PathBuf, Size)>,
    init: Config,
    callback: Option<crate::watch::Callback>,
    together: bool,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("component", &self.component).finish_non_exhaustive()
    }
}

impl Builder {
    pub(crate) fn new(component: &str) -> Self {
        Self {
            component: component.to_owned(),
            app: String::new(),
            version: String::new(),
            threshold: Threshold::DEFAULT,
            file: None,
            init: Config::default(),
            callback: None,
            together: false,
        }
    }

    /// How long one timeout is. The default is 50 ms, the least 1 ms.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.threshold.interval_ns = interval.as_nanos().try_into().unwrap_or(u64::MAX);
        self
    }

    /// How many timeouts in a row make a freeze. The default is five, the least one.
    pub fn misses(mut self, misses: u32) -> Self {
        self.threshold.misses = misses;
        self
    }

    /// The file that takes the reports: made if there is none, added to if there is. Monitors of one process may share it.
    /// Without one, only the callback hears of freezes.
    pub fn report_file(mut self, path: impl Into<PathBuf>, size: Size) -> Self {
        self.file = Some((path.into(), size));
        self
    }

    /// The program's identifier and version, for the reports. The default is the executable's name.
    pub fn app(mut self, identifier: &str, version: &str) -> Self {
        (self.app, self.version) = (identifier.to_owned(), version.to_owned());
        self
    }

    /// What sets up the suspension of threads: which signal is used.
    pub fn suspension(mut self, config: Config) -> Self {
        self.init = config;
        self
    }

    /// Whether a freeze's threads are all held at one time, which shows who waits for whom, but costs each of them about a
    /// millisecond and the monitor 2 MiB. The default is not: each is read by itself. On Apple systems it always is.
    pub fn hold_together(mut self, together: bool) -> Self {
        self.together = together;
        self
    }

    /// Called on the watcher's thread when a freeze is detected, and when it ends. It must not wait for the loop.
    pub fn on_freeze(mut self, callback: impl FnMut(&Freeze<'_>) + Send + 'static) -> Self {
        self.callback = Some(Box::new(callback));
        self
    }

    /// Watches the loop of the calling thread, which tells its activities to the beacon.
    ///
    /// # Errors
    /// See [`StartError`]. Nothing is left behind then, but for a report file.
    pub fn watch_run_loop(self) -> Result<(Monitor, Beacon), StartError> {
        let control = Arc::new(Control::default());
        let shared = Arc::new(BeaconShared::new(current(), control.clone()));
        let monitor = self.start(shared.clone(), control)?;
        Ok((monitor, Beacon::new(shared)))
    }

    /// Watches a loop by pings. `thread` is the loop's thread.
    ///
    /// # Errors
    /// See [`StartError`]. Nothing is left behind then, but for a report file.
    pub fn watch_by_ping(self, target: impl PingTarget, thread: ThreadId) -> Result<Monitor, StartError> {
        self.start(PingSource::new(target, thread), Arc::new(Control::default()))
    }

    pub(crate) fn start<S: Source + 'static>(
        self,
        source: S,
        control: Arc<Control>,
    ) -> Result<Monitor, StartError> {
        if self.threshold.interval_ns < 1_000_000 || self.threshold.total_ns() == u64::MAX {
            return Err(StartError::Threshold("a timeout must be 1 ms or more, and less than centuries"));
        }
        if self.threshold.misses == 0 {
            return Err(StartError::Threshold("at least one timeout must be missed"));
        }
        let registration = Registration::new(source.thread()).ok_or(StartError::AlreadyWatched)?;
        let facts = Facts::read().map_err(StartError::System)?;
        let suspender = init(self.init).map_err(StartError::Init)?;
        let open = |(path, size): (PathBuf, Size)| files::open(&path, size, facts.owner);
        let file = self.file.map(open).transpose().map_err(StartError::File)?;
        control.interval_ns.store(self.threshold.interval_ns, Ordering::Relaxed);
        control.misses.store(self.threshold.misses, Ordering::Relaxed);
        let component = Arc::<str>::from(self.component);
        let app = (self.app, self.version);
        let recorder = Recorder::new(component.clone(), app, facts, suspender, file, self.together);
        let recorder = recorder.map_err(StartError::System)?;
        let callback = self.callback;
        let watcher = Watcher { source, control: control.clone(), component, recorder, callback };
        Monitor::start(watcher, control, registration).map_err(StartError::System)
    }
}
