//! From a verdict to a record in the file.

use crate::clock;
use crate::detect::Threshold;
use crate::facts::{Facts, Vitals};
use freezeframe_report::encode::{About, AppState, Kind, Strategy, encode};
use freezeframe_report::file::ReportFile;
use freezeframe_report::layout::Outcome;
use freezeframe_report::ring::Slot;
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::snapshot::{Options, Snapshot};
use freezeframe_unwind::suspend::Suspender;
use freezeframe_unwind::threads::{ThreadId, current};
use std::sync::{Arc, Mutex, PoisonError};

/// Why and of what a record is made.
pub(crate) struct Cause<'a> {
    pub(crate) strategy: Strategy,
    pub(crate) thread: ThreadId,
    pub(crate) activity: u8,
    pub(crate) started_ns: u64,
    pub(crate) discounted_ns: u64,
    pub(crate) detected_ns: u64,
    pub(crate) threshold: Threshold,
    pub(crate) late_ticks: u64,
    pub(crate) wakeups: u64,
    pub(crate) app_state: AppState,
    /// Whether the freeze still goes on.
    pub(crate) still: &'a dyn Fn() -> bool,
}

/// The freeze that goes on: its slot if it has one, and what the callback hears of that.
struct Open {
    slot: Option<Slot>,
    heard: Result<Option<u64>, String>,
}

/// How many threads are captured; more are counted.
const MAX_THREADS: usize = 1024;
/// How many frames they share.
const MAX_FRAMES: usize = 24_576;

/// Takes the stacks and writes the record. All of its memory is there from the start.
pub(crate) struct Recorder {
    component: Arc<str>,
    app: String,
    version: String,
    facts: Facts,
    suspender: Suspender,
    images: Box<ImageTable>,
    snapshot: Box<Snapshot<MAX_THREADS, MAX_FRAMES>>,
    /// Records are made here first: writing to a file can wait for the file system.
    staging: Vec<u8>,
    file: Option<Arc<ReportFile>>,
    open: Option<Open>,
    watcher: ThreadId,
}

impl Recorder {
    pub(crate) fn new(
        component: Arc<str>,
        (app, version): (String, String),
        facts: Facts,
        suspender: Suspender,
        file: Option<Arc<ReportFile>>,
    ) -> std::io::Result<Self> {
        let bytes = file.as_ref().map_or(0, |file| file.ring().record_bytes());
        let mut staging = Vec::new();
        // Not zeros: those would be pages that are not there yet.
        staging.resize(bytes, 0xff);
        let (images, snapshot) = storage()?;
        Ok(Self {
            component,
            app,
            version,
            facts,
            suspender,
            images,
            snapshot,
            staging,
            file,
            open: None,
            watcher: ThreadId(0),
        })
    }

    /// To be called on the watcher's thread before it watches: learns which thread to leave out, and brings the image
    /// table up to date, so that a freeze pays only for what has changed.
    pub(crate) fn begin(&mut self) {
        self.watcher = current();
        // Without a table now, the refresh at the freeze will say so.
        let _ = self.images.refresh();
    }

    /// Takes the stacks and writes the record of a freeze that has just been detected.
    pub(crate) fn record(&mut self, cause: Cause<'_>) -> Result<Option<u64>, String> {
        let slot = self.try_record(&cause);
        let heard = slot.as_ref().map(|slot| slot.as_ref().map(Slot::sequence)).map_err(Clone::clone);
        self.open = Some(Open { slot: slot.ok().flatten(), heard: heard.clone() });
        self.update(cause.detected_ns.saturating_sub(cause.started_ns).saturating_sub(cause.discounted_ns));
        heard
    }

    fn try_record(&mut self, cause: &Cause<'_>) -> Result<Option<Slot>, String> {
        let Some(file) = &self.file else { return Ok(None) };
        file.check().map_err(|error| error.to_string())?;
        // An older table is better than none: frames in what was loaded since end their walk.
        let refreshed = self.images.refresh();
        // Loops that freeze together, on the same lock say, are captured one after the other.
        static CAPTURING: Mutex<()> = Mutex::new(());
        let turn = CAPTURING.lock().unwrap_or_else(PoisonError::into_inner);
        let exclude = [self.watcher];
        let options = Options {
            first: Some(cause.thread),
            exclude: &exclude,
            still: cause.still,
            ..Options::default()
        };
        self.snapshot.capture(&self.suspender, &self.images, &options).map_err(|error| error.to_string())?;
        drop(turn);
        if self.images.images().is_empty() {
            refreshed.map_err(|error| error.to_string())?;
        }
        let vitals = Vitals::read();
        let now = clock::now();
        let about = About {
            uuid: *uuid::Uuid::new_v4().as_bytes(),
            kind: Kind::Freeze,
            strategy: cause.strategy,
            crash: None,
            component: &self.component,
            activity: cause.activity,
            wall_ns: clock::wall().saturating_sub(now.saturating_sub(cause.detected_ns)),
            started_ns: cause.started_ns,
            detected_ns: cause.detected_ns,
            continuous_ns: vitals.continuous(cause.detected_ns),
            discounted_ns: cause.discounted_ns,
            interval_ns: cause.threshold.interval_ns,
            misses: cause.threshold.misses,
            late_ticks: cause.late_ticks,
            wakeups: cause.wakeups,
            boot_id: self.facts.owner.boot_id,
            process: self.facts.process(&self.app, &self.version, cause.app_state, &vitals),
            system: self.facts.system(),
        };
        let encoded = encode(&mut self.staging, &about, &self.snapshot.view(), &self.images);
        let record = self.staging.get(..encoded.bytes).unwrap_or(&[]);
        file.ring().write(record).map(Some).map_err(|error| error.to_string())
    }

    /// Keeps the open freeze's duration in the file.
    pub(crate) fn update(&mut self, duration_ns: u64) {
        if let (Some(file), Some(Open { slot: Some(slot), .. })) = (&self.file, &mut self.open)
            && file.check().is_ok()
        {
            file.ring().update(slot, duration_ns, Outcome::Ongoing);
        }
    }

    /// Closes the open freeze, and brings it to the disk. None if none was open.
    pub(crate) fn close(
        &mut self,
        duration_ns: u64,
        outcome: Outcome,
    ) -> Option<Result<Option<u64>, String>> {
        let Open { slot, heard } = self.open.take()?;
        if let (Some(file), Some(mut slot)) = (&self.file, slot)
            && file.check().is_ok()
        {
            file.ring().update(&mut slot, duration_ns, outcome);
            // The record is in the page cache, where a kill leaves it; only a power failure could still take it.
            let _ = file.sync();
        }
        Some(heard)
    }
}

/// The large storage: made on a stack of its own, since it may be too large for the caller's on its way to the heap.
fn storage() -> std::io::Result<(Box<ImageTable>, Box<Snapshot<MAX_THREADS, MAX_FRAMES>>)> {
    const STACK: usize = 16 << 20;
    let made = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(|| (Box::new(ImageTable::new()), Box::new(Snapshot::new())))?
        .join();
    made.map_err(|_| std::io::Error::other("the memory for captures could not be set up"))
}
