//! What a loop tells, in memory that two processes may share.

use super::source::Watched;
use crate::activity::Activity;
use crate::detect::Reading;
use crate::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use freezeframe_unwind::threads::ThreadId;

/// Who asks the kernel for events and gets some at once has not waited.
const REAL_WAIT_NS: u64 = 20_000;

/// What the loop's thread writes and the watcher reads.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Board {
    /// `epoch << 8 | activity`. Written by the loop's thread only.
    word: AtomicU64,
    /// Of the current epoch and the one before, each in the place of its parity. An epoch's is written before its word, while
    /// readers of the last word look at the other one.
    epochs: [Epoch; 2],
    /// When the loop last came back from a wait in which it really waited.
    waited_ns: AtomicU64,
    /// How many runs are nested in each other.
    depth: AtomicU32,
    thread: AtomicI32,
}

/// What belongs to an epoch.
#[derive(Debug, Default)]
#[repr(C)]
struct Epoch {
    /// When it began: the last transition.
    since_ns: AtomicU64,
    /// The latest silence of a busy loop for a whole timeout or more: the epoch in which it was, plus one so that zero
    /// means none, and when it ended. The watcher looks once in a timeout, so it sees each.
    silent_epoch: AtomicU64,
    silent_end_ns: AtomicU64,
}

impl Board {
    /// Of a loop that does not run yet.
    pub(crate) fn new(thread: ThreadId, now_ns: u64) -> Self {
        let board = Self {
            word: AtomicU64::new(Activity::Exit as u64),
            epochs: Default::default(),
            waited_ns: AtomicU64::new(now_ns),
            depth: AtomicU32::new(0),
            thread: AtomicI32::new(thread.0),
        };
        board.epoch(0).since_ns.store(now_ns, Ordering::Relaxed);
        board
    }

    fn epoch(&self, epoch: u64) -> &Epoch {
        let [even, odd] = &self.epochs;
        if epoch.is_multiple_of(2) { even } else { odd }
    }

    /// What the loop is about to do, by the thread that runs it. `interval_ns` is the watcher's timeout. Whether the loop leaves
    /// its wait by that.
    pub(crate) fn store(&self, activity: Activity, now_ns: u64, interval_ns: u64) -> bool {
        let earlier = self.word.load(Ordering::Relaxed);
        let was_busy = Activity::from_code(earlier as u8).is_some_and(Activity::is_busy);
        let epoch = (earlier >> 8).wrapping_add(1);
        let (last, next) = (self.epoch(earlier >> 8), self.epoch(epoch));
        let silent_ns = now_ns.saturating_sub(last.since_ns.load(Ordering::Relaxed));
        let (silent_epoch, silent_end_ns) = if was_busy && silent_ns >= interval_ns {
            (epoch, now_ns)
        } else {
            (last.silent_epoch.load(Ordering::Relaxed), last.silent_end_ns.load(Ordering::Relaxed))
        };
        // Released: who sees one of these sees the last word too, and so that the word it began with has passed.
        next.since_ns.store(now_ns, Ordering::Release);
        next.silent_epoch.store(silent_epoch, Ordering::Release);
        next.silent_end_ns.store(silent_end_ns, Ordering::Release);
        if !was_busy && silent_ns >= REAL_WAIT_NS {
            self.waited_ns.store(now_ns, Ordering::Relaxed);
        }
        self.word.store(epoch << 8 | activity as u64, Ordering::Release);
        !was_busy && activity.is_busy()
    }

    /// Another thread runs the loop now.
    #[cfg(any(target_os = "linux", target_os = "android", feature = "glib"))]
    pub(crate) fn set_thread(&self, thread: ThreadId) {
        self.thread.store(thread.0, Ordering::Relaxed);
    }

    /// How many runs are nested in each other.
    pub(crate) fn set_depth(&self, depth: u32) {
        self.depth.store(depth, Ordering::Relaxed);
    }

    /// The last activity's value.
    pub(crate) fn activity(&self) -> u8 {
        self.word.load(Ordering::Relaxed) as u8
    }

    pub(crate) fn thread(&self) -> ThreadId {
        ThreadId(self.thread.load(Ordering::Relaxed))
    }

    pub(crate) fn read(&self, now_ns: u64) -> Watched {
        loop {
            let word = self.word.load(Ordering::Acquire);
            let epoch = self.epoch(word >> 8);
            let since_ns = epoch.since_ns.load(Ordering::Acquire);
            let silent_epoch = epoch.silent_epoch.load(Ordering::Acquire);
            let silent_end_ns = epoch.silent_end_ns.load(Ordering::Acquire);
            if self.word.load(Ordering::Acquire) == word {
                let busy = Activity::from_code(word as u8).is_some_and(Activity::is_busy);
                let silence = silent_epoch.checked_sub(1).map(|epoch| (epoch, silent_end_ns));
                let reading = Reading { epoch: (word >> 8, 0), busy, since_ns, silence };
                let waits = !busy && now_ns.saturating_sub(since_ns) >= REAL_WAIT_NS;
                let waited_ns = if waits { now_ns } else { self.waited_ns.load(Ordering::Relaxed) };
                let depth = self.depth.load(Ordering::Relaxed);
                let activity = word as u8;
                return Watched { reading, activity, waited_ns: Some(waited_ns), depth, waits: None };
            }
        }
    }

    pub(crate) fn unchanged(&self, watched: &Watched) -> bool {
        self.word.load(Ordering::Acquire) >> 8 == watched.reading.epoch.0
    }

    /// Has the current epoch begin at that time.
    #[cfg(all(test, explored))]
    pub(super) fn begin_at(&self, now_ns: u64) {
        self.epoch(0).since_ns.store(now_ns, Ordering::Relaxed);
    }
}
