//! The memory of a snapshot.

use super::ThreadCapture;
use crate::threads::ThreadId;
use crate::walk::{Frame, WalkContext};
use freezeframe_arch::{Architecture, PacMask};

/// How much of a stack is copied at a time, in bytes.
pub(super) const STACK_WINDOW: usize = 64 * 1024;

/// Up to `THREADS` threads with up to `FRAMES` frames together. `const` constructible, so usable as a static that is
/// there before anything goes wrong; about 500 bytes a thread, 32 a frame, 64 KiB for the copy of
/// a stack and 320 KiB for what walks learn.
///
/// ```
/// use freezeframe_unwind::images::ImageTable;
/// use freezeframe_unwind::init::{Config, init};
/// use freezeframe_unwind::snapshot::{Options, Snapshot};
/// use std::sync::Mutex;
///
/// static STORAGE: Mutex<(ImageTable, Snapshot<128, 4096>)> = Mutex::new((ImageTable::new(), Snapshot::new()));
///
/// let suspender = init(Config::default())?;
/// let (images, snapshot) = &mut *STORAGE.lock().unwrap();
/// images.refresh()?;
/// snapshot.capture(&suspender, images, &Options::default())?;
/// for thread in snapshot.view().threads {
///     println!("{:?}: {} frames", thread.facts.name, snapshot.view().frames(thread).len());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Snapshot<const THREADS: usize, const FRAMES: usize> {
    pub(super) threads: [ThreadCapture; THREADS],
    pub(super) ids: [ThreadId; THREADS],
    pub(super) frames: [Frame; FRAMES],
    pub(super) stack: [u8; STACK_WINDOW],
    pub(super) context: WalkContext,
    pub(super) head: Head,
}

/// What a snapshot says beside its threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) threads: usize,
    pub(super) frames: usize,
    pub(super) dropped: usize,
    pub(super) started_ns: u64,
    pub(super) ended_ns: u64,
    pub(super) pac: PacMask,
}

impl<const THREADS: usize, const FRAMES: usize> Snapshot<THREADS, FRAMES> {
    /// An empty snapshot.
    pub const fn new() -> Self {
        Self {
            threads: [ThreadCapture::EMPTY; THREADS],
            ids: [ThreadId(0); THREADS],
            frames: [Frame::EMPTY; FRAMES],
            stack: [0; STACK_WINDOW],
            context: WalkContext::new(),
            head: Head { threads: 0, frames: 0, dropped: 0, started_ns: 0, ended_ns: 0, pac: PacMask::NONE },
        }
    }

    /// What was captured last.
    ///
    /// # Signal safety
    /// Safe.
    pub fn view(&self) -> View<'_> {
        View {
            threads: self.threads.get(..self.head.threads).unwrap_or(&[]),
            frames: self.frames.get(..self.head.frames).unwrap_or(&[]),
            dropped_threads: self.head.dropped,
            started_ns: self.head.started_ns,
            ended_ns: self.head.ended_ns,
            pac: self.head.pac,
            architecture: Architecture::NATIVE,
        }
    }
}

impl<const THREADS: usize, const FRAMES: usize> Default for Snapshot<THREADS, FRAMES> {
    fn default() -> Self {
        Self::new()
    }
}

/// A snapshot of any size, for reading.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The threads: the one that was asked to come first, the main thread, and the others from the oldest on.
    pub threads: &'a [ThreadCapture],
    frames: &'a [Frame],
    /// How many threads there were beyond those that fit.
    pub dropped_threads: usize,
    /// When the capture began, on the monotonic clock, in nanoseconds.
    pub started_ns: u64,
    /// When the last thread was let go and walked.
    pub ended_ns: u64,
    /// Which bits of return addresses hold authentication codes.
    pub pac: PacMask,
    /// Whose registers these are.
    pub architecture: Architecture,
}

impl<'a> View<'a> {
    /// The frames that are kept of a thread, innermost first; see [`Summary`](crate::walk::Summary) for what is left out.
    ///
    /// # Signal safety
    /// Safe.
    pub fn frames(&self, thread: &ThreadCapture) -> &'a [Frame] {
        let end = thread.first_frame.saturating_add(thread.summary.kept);
        self.frames.get(thread.first_frame..end).unwrap_or(&[])
    }
}
