//! Setting up a monitor.

use crate::capture::Capturer;
use crate::clock;
use crate::detect::Threshold;
use crate::episode::{DailyCap, SeverityLimits};
use crate::facts::Facts;
use crate::files;
use crate::freeze::{Candidate, Freeze};
use crate::hooks::{Closures, Hooks, Values};
use crate::monitor::Monitor;
use crate::pressure::{CpuLimit, NeverIdle};
use crate::record::{Recorder, Settings};
use crate::registry::Registration;
use crate::track::Track;
use crate::vitals::Frames;
use crate::watch::{Beacon, BeaconShared, Control, CpuWatch, PingSource, PingTarget, Source, Watcher};
use freezeframe_report::encode::Kind;
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
    limits: SeverityLimits,
    daily_cap: u32,
    record_repeats: bool,
    never_idle_ns: Option<u64>,
    cpu: Option<CpuLimit>,
    frames: Option<Frames>,
    closures: Closures,
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
            limits: SeverityLimits::default(),
            daily_cap: 100,
            record_repeats: false,
            never_idle_ns: None,
            cpu: None,
            frames: None,
            closures: Closures::default(),
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

    /// From which duration on a freeze has which severity.
    pub fn severity(mut self, limits: SeverityLimits) -> Self {
        self.limits = limits;
        self
    }

    /// How many records are written in a day at most. The default is 100; what finds no place is counted.
    pub fn daily_cap(mut self, records: u32) -> Self {
        self.daily_cap = records;
        self
    }

    /// Whether each freeze gets a record of its own. It does not unless this is set: of those with the same stack, the first
    /// and the second do, and then fewer and fewer; the others are counted in the latest record.
    pub fn record_repeats(mut self, each: bool) -> Self {
        self.record_repeats = each;
        self
    }

    /// Reports a loop that turns, but has not waited for so long. Only a loop that tells its activities can be watched for
    /// that.
    pub fn never_idle(mut self, after: Duration) -> Self {
        self.never_idle_ns = Some(after.as_nanos().try_into().unwrap_or(u64::MAX));
        self
    }

    /// Reports a process that takes so much of the processors, in percent of one, for so long, with the threads that do it.
    /// The watcher wakes up once a second for that, even while the loop waits.
    pub fn cpu_high(mut self, percent: u32, after: Duration) -> Self {
        let for_ns = after.as_nanos().try_into().unwrap_or(u64::MAX);
        self.cpu = Some(CpuLimit { percent, for_ns });
        self
    }

    /// The frames that the watched loop draws: reports say how many those were before the freeze.
    pub fn frames(mut self, frames: &Frames) -> Self {
        self.frames = Some(frames.clone());
        self
    }

    /// Called when a freeze is detected, when it becomes more severe, and when it ends: on a thread of the monitor's, so that
    /// one that hangs or panics hurts nobody. One that has panicked is not called again.
    pub fn on_freeze(mut self, callback: impl FnMut(&Freeze<'_>) + Send + 'static) -> Self {
        self.closures.on_freeze = Some(Box::new(callback));
        self
    }

    /// Asked before a report is written: whether the program wants it, and hears of it. What it refuses it is asked about again
    /// as often as that becomes more severe; a freeze that is wanted then has its samples from the start. On the same thread as
    /// the callback; without an answer within 100 ms it is wanted.
    pub fn filter(mut self, filter: impl FnMut(&Candidate) -> bool + Send + 'static) -> Self {
        self.closures.filter = Some(Box::new(filter));
        self
    }

    /// Asked before a report is written: what the program has to add. On the same thread and in the same time as the filter.
    pub fn enrich(mut self, enrich: impl FnMut(&Candidate, &mut Values) + Send + 'static) -> Self {
        self.closures.enrich = Some(Box::new(enrich));
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
        let control = Arc::new(Control::default());
        self.start(PingSource::new(target, thread, control.clone()), control)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) const fn interval_ns(&self) -> u64 {
        self.threshold.interval_ns
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
        let facts = Facts::read(source.subject()).map_err(StartError::System)?;
        let suspender = init(self.init).map_err(StartError::Init)?;
        let open = |(path, size): (PathBuf, Size)| files::open(&path, size, facts.owner);
        let file = self.file.map(open).transpose().map_err(StartError::File)?;
        control.interval_ns.store(self.threshold.interval_ns, Ordering::Relaxed);
        control.misses.store(self.threshold.misses, Ordering::Relaxed);
        let component = Arc::<str>::from(self.component);
        let settings = Settings {
            app: self.app,
            version: self.version,
            limits: self.limits,
            cap: DailyCap::new(self.daily_cap),
            record_repeats: self.record_repeats,
            frames: self.frames,
        };
        let capturer =
            Capturer::new(source.subject(), suspender, self.together).map_err(StartError::System)?;
        let hooks =
            Hooks::start(component.clone(), self.closures, control.clone()).map_err(StartError::System)?;
        let hooks_thread = hooks.thread();
        let recorder = Recorder::new(component, settings, facts, capturer, file, control.clone(), hooks);
        let interval_ns = self.threshold.interval_ns;
        let never_idle = self.never_idle_ns.map(|limit_ns| {
            let limit_ns = limit_ns.max(interval_ns);
            let never = NeverIdle::new(limit_ns, interval_ns.saturating_mul(4), clock::now());
            (never, Track::new(Kind::NeverIdle))
        });
        let cpu = self.cpu.map(|limit| (CpuWatch::new(limit), Track::new(Kind::CpuHigh)));
        let freezes = Track::new(Kind::Freeze);
        let watcher = Watcher { source, control: control.clone(), recorder, freezes, never_idle, cpu };
        Monitor::start(watcher, control, registration, hooks_thread).map_err(StartError::System)
    }
}
