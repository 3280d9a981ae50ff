//! The memory that a freeze's stacks are taken into, in one of the two ways of holding threads.

use crate::subject::{self, Subject};
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::snapshot::{Options, Snapshot, SnapshotError, ThreadCapture, View};
use freezeframe_unwind::suspend::{Purpose, Suspender};
use freezeframe_unwind::threads::ThreadId;
use freezeframe_unwind::walk::Frame;

/// How many threads are captured; more are counted.
const MAX_THREADS: usize = 1024;
/// How many frames they share.
const MAX_FRAMES: usize = 24_576;
/// How many bytes of stacks are kept of threads that are held at one time. Those beyond are read by themselves.
const ARENA: usize = 2 << 20;

/// A snapshot.
pub(crate) enum Stacks {
    OneByOne(Box<Snapshot<MAX_THREADS, MAX_FRAMES>>),
    Together(Box<Snapshot<MAX_THREADS, MAX_FRAMES, ARENA>>),
}

impl Stacks {
    /// To be called where there is room for all of it on the stack: it may be made there before it is on the heap.
    pub(crate) fn new(together: bool) -> Self {
        if together {
            Self::Together(Box::new(Snapshot::new()))
        } else {
            Self::OneByOne(Box::new(Snapshot::new()))
        }
    }

    /// See [`Snapshot::capture`]; the options' purpose is this value's.
    pub(crate) fn capture(
        &mut self,
        subject: Subject,
        suspender: &Suspender,
        images: &ImageTable,
        options: &Options<'_>,
    ) -> Result<(), SnapshotError> {
        let with = |purpose| Options { purpose, ..*options };
        match self {
            Self::OneByOne(snapshot) => {
                subject::capture(subject, snapshot, suspender, images, &with(Purpose::OneThread))
            }
            Self::Together(snapshot) => {
                subject::capture(subject, snapshot, suspender, images, &with(Purpose::AllTogether))
            }
        }
    }

    /// See [`Snapshot::capture_thread`].
    pub(crate) fn capture_thread(
        &mut self,
        subject: Subject,
        suspender: &Suspender,
        images: &ImageTable,
        thread: ThreadId,
        options: &Options<'_>,
    ) {
        match self {
            Self::OneByOne(snapshot) => {
                subject::capture_thread(subject, snapshot, suspender, images, thread, options)
            }
            Self::Together(snapshot) => {
                subject::capture_thread(subject, snapshot, suspender, images, thread, options)
            }
        }
    }

    /// See [`Snapshot::retain_locks`].
    pub(crate) fn retain_locks(&mut self, is_lock: impl FnMut(&ThreadCapture, &[Frame]) -> bool) {
        match self {
            Self::OneByOne(snapshot) => snapshot.retain_locks(is_lock),
            Self::Together(snapshot) => snapshot.retain_locks(is_lock),
        }
    }

    /// See [`Snapshot::function_start`].
    pub(crate) fn function_start(
        &mut self,
        subject: Subject,
        images: &ImageTable,
        lookup: u64,
    ) -> Option<u64> {
        match self {
            Self::OneByOne(snapshot) => subject::function_start(subject, snapshot, images, lookup),
            Self::Together(snapshot) => subject::function_start(subject, snapshot, images, lookup),
        }
    }

    pub(crate) fn view(&self) -> View<'_> {
        match self {
            Self::OneByOne(snapshot) => snapshot.view(),
            Self::Together(snapshot) => snapshot.view(),
        }
    }
}
