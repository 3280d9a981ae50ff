//! All threads of another process, from outside.
//!
//! Whoever waits is only looked at. Whoever runs is stopped by a tracer for as long as its stack takes to copy; so is who waits
//! in a call that a stop does not end, where looking was not enough.

use super::frames::{Frames, Share};
use super::storage::{Head, Set, Snapshot};
use super::take::Look;
use super::walks::{Ground, Hold, Holder, Reach, Walks};
use super::{Held, Options, SnapshotError, ThreadCapture};
use crate::images::ImageTable;
use crate::init::pac_mask;
use crate::locks;
use crate::memory::ProcessMemory;
use crate::process::ProcessId;
use crate::rule::KnownRegisters;
use crate::suspend::linux::{Traced, goes_on_elsewhere};
use crate::suspend::{SuspendError, Way, Ways};
use crate::sys;
use crate::threads::{self, RunState, ThreadFacts, ThreadId};
use freezeframe_arch::Registers;

impl<const THREADS: usize, const FRAMES: usize, const ARENA: usize> Snapshot<THREADS, FRAMES, ARENA> {
    /// Captures the threads of another process. Of the options, `purpose` and the
    /// times for stopping are not looked at, and of the ways, the signal's.
    ///
    /// `images` must be that process's, refreshed just before; a snapshot is used for one process all its life.
    ///
    /// # Errors
    /// The threads cannot be listed.
    ///
    /// # Signal safety
    /// Safe, with about 12 KiB of stack. It waits for a thread that was told to stop until it does, for ten seconds at most.
    pub fn capture_process(
        &mut self,
        process: ProcessId,
        images: &ImageTable,
        options: &Options<'_>,
    ) -> Result<(), SnapshotError> {
        self.begin();
        let count = threads::list_of(process, &mut self.ids).map_err(SnapshotError::Threads)?;
        self.head.dropped = count.saturating_sub(THREADS);
        let main = ThreadId(process.number().unwrap_or(0));
        let first = options.first.unwrap_or(main);
        let ids = self.ids.get(..count.min(THREADS)).unwrap_or(&[]);
        let others = ids.iter().copied().filter(|thread| *thread != first && *thread != main);
        let leading = [first, main].into_iter().take(if first == main { 1 } else { 2 });
        for thread in leading.chain(others).filter(|thread| !options.exclude.contains(thread)) {
            if let Some(slot) = self.threads.get_mut(self.head.threads) {
                *slot = ThreadCapture { thread, main: thread == main, ..ThreadCapture::EMPTY };
                self.head.threads = self.head.threads.saturating_add(1);
            }
        }
        self.take_outside(process, images, options);
        Ok(())
    }

    /// Captures one thread of another process and no other, like [`capture_process`](Self::capture_process) its first.
    ///
    /// # Signal safety
    /// As there.
    pub fn capture_thread_of(
        &mut self,
        process: ProcessId,
        images: &ImageTable,
        thread: ThreadId,
        options: &Options<'_>,
    ) {
        self.begin();
        if let Some(slot) = self.threads.first_mut() {
            let main = process.number() == Some(thread.0);
            *slot = ThreadCapture { thread, main, ..ThreadCapture::EMPTY };
            self.head.threads = 1;
        }
        self.take_outside(process, images, options);
    }

    /// Where the function begins that `lookup` lies in, as far as the unwind tables of its image in that process know.
    ///
    /// # Signal safety
    /// Safe.
    pub fn function_start_of(&mut self, process: ProcessId, images: &ImageTable, lookup: u64) -> Option<u64> {
        self.context.function_start(images, ProcessMemory::of(process), lookup)
    }

    fn begin(&mut self) {
        let now = sys::monotonic();
        let (set, pac) = (Set::OneByOne, pac_mask());
        self.head = Head { threads: 0, frames: 0, dropped: 0, set, started_ns: now, ended_ns: now, pac };
    }

    fn take_outside(&mut self, process: ProcessId, images: &ImageTable, options: &Options<'_>) {
        let give_up = sys::monotonic().saturating_add(options.all_within_ns);
        let pac = self.head.pac;
        let memory = || ProcessMemory::of(process);
        let ground = Ground { images, pac, tables: memory(), context: &mut self.context };
        let walks = Walks { ground, memory: memory(), stack: &mut self.stack };
        let mut taker = Taker { process, walks, ways: options.ways };
        let mut frames = Frames { all: &mut self.frames, used: 0 };
        let threads = self.threads.get_mut(..self.head.threads).unwrap_or(&mut []);
        let count = threads.len();
        for (index, thread) in threads.iter_mut().enumerate() {
            let first = index == 0;
            thread.facts = threads::facts_of(process, thread.thread);
            thread.lock = locks::learn_in(process, &mut taker.walks.memory, thread);
            let (depth, still) = match first {
                true => (options.first_depth, options.still),
                false => (options.other_depth, &(|| true) as &dyn Fn() -> bool),
            };
            let mut share = frames.share(depth, first, count.saturating_sub(index));
            thread.first_frame = share.start;
            if !first && sys::monotonic() >= give_up {
                thread.held = Held::Not(SuspendError::OutOfTime);
            } else {
                taker.take(thread, &mut share, still);
            }
            frames.used = frames.used.saturating_add(thread.summary.kept);
            if !locks::agrees(thread) {
                thread.lock = None;
            }
        }
        self.head.frames = frames.used;
        self.head.ended_ns = sys::monotonic();
    }
}

/// How often a thread is looked at that has gone on meanwhile.
const LOOKS: u32 = 8;

struct Taker<'a> {
    process: ProcessId,
    walks: Walks<'a>,
    ways: Ways,
}

impl Taker<'_> {
    fn take(&mut self, thread: &mut ThreadCapture, share: &mut Share<'_>, still: &dyn Fn() -> bool) {
        let (process, id) = (self.process, thread.thread);
        let mut look = || self.walks.take(thread, share, still, Look { process, thread: id });
        let mut peeked = look();
        for _ in 1..LOOKS {
            // It wakes up often, and waits again.
            if peeked != Err(SuspendError::Changed) {
                break;
            }
            peeked = look();
        }
        let why = match peeked {
            Ok(Reach::End) => return,
            Ok(_) => SuspendError::TwoRegisters,
            Err(error) => error,
        };
        thread.not_better = Some(why);
        let kept = *thread;
        if !self.ways.contains(Way::Ptrace) || !may_be_stopped(why, &thread.facts) {
            if peeked.is_err() {
                thread.held = Held::Not(why);
            }
            return;
        }
        let traced = self.walks.take(thread, share, still, Trace { process, thread: id });
        match (traced, peeked) {
            (Ok(_), _) => {}
            (Err(_), Ok(_)) => *thread = kept,
            (Err(error), Err(_)) => thread.held = Held::Not(error),
        }
    }
}

/// Whether a thread may be stopped that could not be looked at, or not well enough: it ran, or what it waits in goes on after a
/// stop as if nothing had been.
fn may_be_stopped(why: SuspendError, facts: &ThreadFacts) -> bool {
    if !matches!(facts.state, RunState::Running | RunState::Sleeping) {
        return false;
    }
    match (why, facts.system_call) {
        (SuspendError::Gone, _) => false,
        (SuspendError::Running | SuspendError::Changed, _) => facts.state == RunState::Running,
        (_, Some(call)) => goes_on_elsewhere(&call),
        (_, None) => facts.state == RunState::Running,
    }
}

/// Stops a thread, as often as its stack takes.
struct Trace {
    process: ProcessId,
    thread: ThreadId,
}

impl Holder for Trace {
    type Hold<'a> = Traced;

    fn hold(&mut self) -> Result<Traced, SuspendError> {
        Traced::begin(self.process, self.thread)
    }
}

impl Hold for Traced {
    fn registers(&self) -> (Registers, KnownRegisters) {
        (*Traced::registers(self), KnownRegisters::ALL)
    }

    fn end(self) -> Result<Held, SuspendError> {
        Ok(Held::Ptrace { held_ns: Traced::end(self) })
    }
}
