//! The memory of a snapshot.

use super::ThreadCapture;
use super::take::Hall;
use crate::suspend::SuspendError;
use crate::threads::ThreadId;
use crate::walk::{Frame, WalkContext};
use freezeframe_arch::{Architecture, PacMask};

/// How much of a stack is copied at a time, in bytes.
pub(super) const STACK_WINDOW: usize = 64 * 1024;

/// Up to `THREADS` threads with up to `FRAMES` frames together. `const` constructible, so usable as a static that is
/// there before anything goes wrong; about 900 bytes a thread, 32 a frame, 64 KiB for the copy of
/// a stack and 320 KiB for what walks learn.
///
/// `ARENA` bytes are for the stacks of all threads at one time ([`Purpose::AllTogether`](crate::suspend::Purpose)): 8 KiB
/// a thread is plenty, since most stacks that wait are small. Where that was not enough for a stack, its thread is read
/// again by itself.
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
pub struct Snapshot<const THREADS: usize, const FRAMES: usize, const ARENA: usize = 0> {
    pub(super) threads: [ThreadCapture; THREADS],
    pub(super) ids: [ThreadId; THREADS],
    pub(super) frames: [Frame; FRAMES],
    pub(super) stack: [u8; STACK_WINDOW],
    pub(super) context: WalkContext,
    pub(super) head: Head,
    pub(super) hall: Hall<THREADS, ARENA>,
}

/// Whether the threads of a snapshot show one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// Each was read by itself, as was asked for.
    OneByOne,
    /// Those that were held by a helper stood still at one time.
    Together {
        /// From before the first was stopped until the last was let go, in nanoseconds.
        held_ns: u64,
    },
    /// That was asked for, but each was read by itself.
    NotTogether(SuspendError),
}

/// What a snapshot says beside its threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) threads: usize,
    pub(super) frames: usize,
    pub(super) dropped: usize,
    pub(super) set: Set,
    pub(super) started_ns: u64,
    pub(super) ended_ns: u64,
    pub(super) pac: PacMask,
}

impl<const THREADS: usize, const FRAMES: usize, const ARENA: usize> Snapshot<THREADS, FRAMES, ARENA> {
    /// An empty snapshot.
    pub const fn new() -> Self {
        Self {
            threads: [ThreadCapture::EMPTY; THREADS],
            ids: [ThreadId(0); THREADS],
            frames: [Frame::EMPTY; FRAMES],
            stack: [0; STACK_WINDOW],
            context: WalkContext::new(),
            head: Head {
                threads: 0,
                frames: 0,
                dropped: 0,
                set: Set::OneByOne,
                started_ns: 0,
                ended_ns: 0,
                pac: PacMask::NONE,
            },
            hall: Hall::EMPTY,
        }
    }

    /// Forgets locks that are none: for who knows more of a thread than its lock's words. `is_lock` is asked about each thread
    /// that waits for a lock, with its frames.
    ///
    /// # Signal safety
    /// Safe if `is_lock` is.
    pub fn retain_locks(&mut self, mut is_lock: impl FnMut(&ThreadCapture, &[Frame]) -> bool) {
        let threads = self.threads.get_mut(..self.head.threads).unwrap_or(&mut []);
        for thread in threads.iter_mut().filter(|thread| thread.lock.is_some()) {
            let end = thread.first_frame.saturating_add(thread.summary.kept);
            let frames = self.frames.get(thread.first_frame..end).unwrap_or(&[]);
            if !is_lock(thread, frames) {
                thread.lock = None;
            }
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
            set: self.head.set,
            started_ns: self.head.started_ns,
            ended_ns: self.head.ended_ns,
            pac: self.head.pac,
            architecture: Architecture::NATIVE,
        }
    }
}

impl<const THREADS: usize, const FRAMES: usize, const ARENA: usize> Default
    for Snapshot<THREADS, FRAMES, ARENA>
{
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
    /// Whether the threads were held at one time.
    pub set: Set,
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
