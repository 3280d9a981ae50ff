//! From a signal to a record in the file, with memory that was there before.

use super::kept::Kept;
use super::memory::Guarded;
use super::signals::Info;
use crate::clock;
use crate::facts::{Facts, Moment};
use crate::subject::Subject;
use freezeframe_arch::Registers;
use freezeframe_report::encode::{About, Kind, Strategy, Told, encode};
use freezeframe_report::file::{Handle, ReportFile};
use freezeframe_report::ring::Owner;
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::snapshot::{Options, Snapshot};
use freezeframe_unwind::suspend::{Patience, Purpose, Suspender, exempt};
use freezeframe_unwind::threads::{current, hurry};
use rustix::io::Errno;
use std::ptr::NonNull;
use std::sync::Arc;

/// How many threads are captured; more are counted.
const MAX_THREADS: usize = 1024;
/// How many frames they share: more than fit into a slot of the usual size.
const MAX_FRAMES: usize = 12_288;

/// How many bytes of stacks are kept of threads that are held at one time. Those beyond are stopped by themselves.
const ARENA: usize = 2 << 20;

struct Storage {
    images: ImageTable,
    snapshot: Snapshot<MAX_THREADS, MAX_FRAMES, ARENA>,
}

/// Takes the stacks and writes the record. Nothing of it that a crash needs lies on the heap.
pub(super) struct Writer {
    owner: Owner,
    kept: Kept,
    /// One process has one crash.
    uuid: [u8; 16],
    suspender: Suspender,
    /// How long the other threads may take, all together.
    others_within_ns: u64,
    file: Handle,
    storage: NonNull<Storage>,
    /// Records are made here first, and then written.
    staging: Guarded,
    _storage: Guarded,
    _file: Arc<ReportFile>,
}

impl Writer {
    pub(super) fn new(
        facts: Facts,
        (app, version): (String, String),
        suspender: Suspender,
        others_within_ns: u64,
        file: Arc<ReportFile>,
    ) -> std::io::Result<Self> {
        let system = |error: Errno| std::io::Error::from(error);
        let memory = Guarded::new(size_of::<Storage>()).map_err(system)?;
        let staging = Guarded::new(file.ring().record_bytes()).map_err(system)?;
        let storage = fill(&memory)?;
        let kept = Kept::new(&facts, &app, &version, &Moment::read(Subject::Own)).map_err(system)?;
        let uuid = *uuid::Uuid::new_v4().as_bytes();
        Ok(Self {
            owner: facts.owner,
            kept,
            uuid,
            suspender,
            others_within_ns,
            // SAFETY: the file is dropped with this value.
            file: unsafe { file.handle() },
            storage,
            staging,
            _storage: memory,
            _file: file,
        })
    }

    /// Writes the record of a crash of the calling thread, as well as it can. Without a lock or an allocation, and in
    /// bounded time, but for what the file system takes.
    pub(super) fn write(&mut self, info: &Info, registers: Option<&Registers>) {
        let now = clock::now();
        // Where many threads run, this one's turn would come seldom.
        let _hurry = hurry();
        // A freeze's capture that goes on now need not wait for this thread. Nobody takes this back: the process ends.
        std::mem::forget(exempt::exempt(current()));
        // SAFETY: filled in by `new`; the mapping is this value's own.
        let Storage { images, snapshot } = unsafe { self.storage.as_mut() };
        // An older table is better than none.
        let _ = images.refresh();
        let here = freezeframe_arch::capture();
        // At one time: however many threads run, they all stop in the time that one does.
        let options = Options {
            purpose: Purpose::AllTogether,
            first_patience: Patience { stop_within_ns: self.others_within_ns / 2, ..Patience::DEFAULT },
            other_patience: Patience { stop_within_ns: self.others_within_ns / 10, ..Patience::DEFAULT },
            all_within_ns: self.others_within_ns,
            ..Options::default()
        };
        snapshot.capture_from_context(&self.suspender, images, registers.unwrap_or(&here), &options);
        let moment = Moment::read(Subject::Own);
        let about = About {
            uuid: self.uuid,
            kind: Kind::Crash,
            strategy: Strategy::Signal,
            crash: Some(info.crash()),
            component: "",
            activity: 0,
            wall_ns: clock::wall().saturating_sub(clock::now().saturating_sub(now)),
            started_ns: now,
            detected_ns: now,
            continuous_ns: moment.continuous(now),
            discounted_ns: 0,
            interval_ns: 0,
            misses: 0,
            late_ticks: 0,
            wakeups: 0,
            boot_id: self.owner.boot_id,
            process: self.kept.process(&moment),
            system: self.kept.system(),
            told: Told::default(),
            vitals: None,
        };
        // SAFETY: the mapping is this value's own, zeroed when it was made.
        let staging =
            unsafe { std::slice::from_raw_parts_mut(self.staging.start(), self.file.ring().record_bytes()) };
        let encoded = encode(staging, &about, &snapshot.view(), images);
        if self.file.is_intact() {
            // Where there is no room the ring counts it; there is nobody to tell.
            let _ = self.file.ring().write_crash(staging.get(..encoded.bytes).unwrap_or(&[]));
        }
    }

    /// The process that this is for.
    pub(super) const fn pid(&self) -> u32 {
        self.owner.pid
    }
}

/// Makes the storage in its place, on a stack of its own: it may be too large for the caller's on its way there.
fn fill(memory: &Guarded) -> std::io::Result<NonNull<Storage>> {
    const STACK: usize = 16 << 20;
    let place = memory.start() as usize;
    let made = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || {
            let storage = place as *mut Storage;
            // SAFETY: the mapping is large enough, aligned to a page, and nobody else's yet.
            unsafe {
                storage.write(Storage { images: ImageTable::new(), snapshot: Snapshot::new() });
                // So that a crash pays only for what has changed. Without a table now, it is tried again then.
                let _ = (*storage).images.refresh();
            }
        })?
        .join();
    let failed = || std::io::Error::other("the memory for a crash could not be set up");
    made.map_err(|_| failed())?;
    NonNull::new(memory.start().cast()).ok_or_else(failed)
}
