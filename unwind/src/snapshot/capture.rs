//! The path of a capture: list, hold, copy, release, walk.

use super::frames::Frames;
use super::storage::{Head, Set, Snapshot};
use super::take::Taker;
use super::walks::{Ground, Walks};
use super::{Held, ThreadCapture};
use crate::images::ImageTable;
use crate::init::pac_mask;
use crate::locks;
use crate::memory::ProcessMemory;
use crate::suspend::{Patience, Purpose, Session, SuspendError, Suspender, Ways};
use crate::sys;
use crate::threads::{self, Listing, ThreadFacts, ThreadId, ThreadsError};
use crate::walk::Depth;
use freezeframe_arch::Registers;

/// Whom to capture, how deep, and how long to wait.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The thread that matters most: captured first and at full depth. The default is the main thread.
    pub first: Option<ThreadId>,
    /// What the threads are read for: in which order ways are tried.
    pub purpose: Purpose,
    /// Which ways may be taken.
    pub ways: Ways,
    /// Threads to leave out: a monitor's own, a real-time thread that must not be stopped.
    pub exclude: &'a [ThreadId],
    /// How many frames to keep of the first thread.
    pub first_depth: Depth,
    /// How many frames to keep of each other thread.
    pub other_depth: Depth,
    /// How long to wait for the first thread.
    pub first_patience: Patience,
    /// How long to wait for each other thread; those that run may have more, if the time for all allows.
    pub other_patience: Patience,
    /// How long to wait for all threads together, in nanoseconds; those whose turn comes later are listed without stacks.
    pub all_within_ns: u64,
    /// Whether the first thread may be stopped in a system call that ends by that (`EINTR`), if its stack cannot be had whole
    /// otherwise. Those of the others never are. Linux; a purpose of [`Purpose::AllTogether`] stops everybody.
    pub interrupt: bool,
    /// Asked while the first thread is held: whether what is to be captured is still going on.
    pub still: &'a dyn Fn() -> bool,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            first: None,
            purpose: Purpose::OneThread,
            ways: Ways::ALL,
            exclude: &[],
            first_depth: Depth { innermost: 192, outermost: 64 },
            other_depth: Depth { innermost: 64, outermost: 32 },
            first_patience: Patience { stop_within_ns: 100_000_000, ..Patience::DEFAULT },
            other_patience: Patience { stop_within_ns: 10_000_000, ..Patience::DEFAULT },
            all_within_ns: 500_000_000,
            interrupt: true,
            still: &|| true,
        }
    }
}

impl core::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Options")
            .field("first", &self.first)
            .field("purpose", &self.purpose)
            .field("ways", &self.ways)
            .field("exclude", &self.exclude)
            .finish_non_exhaustive()
    }
}

/// Why there is no snapshot. A thread that cannot be stopped is no reason: it is listed with the reason instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// The threads cannot be listed.
    Threads(ThreadsError),
}

impl core::fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self::Threads(error) = self;
        error.fmt(f)
    }
}

impl core::error::Error for SnapshotError {}

impl<const THREADS: usize, const FRAMES: usize, const ARENA: usize> Snapshot<THREADS, FRAMES, ARENA> {
    /// Captures the threads of this process, each in the best way that the system and the options permit. None is held
    /// for longer than its registers and its stack are copied, or those of all that are held together. The earlier
    /// content is lost.
    ///
    /// `images` should have been refreshed just before: a frame outside its code ends a walk.
    ///
    /// Where the threads cannot be listed, for no descriptor is left say, the first that the options name is captured all the
    /// same, and [`View::set`](super::View::set) says that the others are missing.
    ///
    /// # Errors
    /// The threads cannot be listed, and the options name none.
    ///
    /// # Signal safety
    /// Safe, with about 12 KiB of stack. It waits, but never for longer than the options say.
    pub fn capture(
        &mut self,
        suspender: &Suspender,
        images: &ImageTable,
        options: &Options<'_>,
    ) -> Result<(), SnapshotError> {
        // Before the session, so that it ends after it: on Mach it then gives rights back, and nobody may be held.
        let listing = self.list(options);
        if let (Err(error), None) = (&listing, options.first) {
            return Err(*error);
        }
        if let (Err(_), Some(first)) = (&listing, options.first) {
            self.list_only(first);
        }
        self.take_listed(suspender.session(), images, options, None);
        if listing.is_err() {
            self.head.set = Set::NotTogether(SuspendError::Unlisted);
        }
        Ok(())
    }

    /// Captures one thread and no other, like [`capture`](Self::capture) its first: for who looks again and again at what one
    /// thread does. The earlier content is lost.
    ///
    /// # Signal safety
    /// Safe, with about 12 KiB of stack. It waits, but never for longer than the options say.
    pub fn capture_thread(
        &mut self,
        suspender: &Suspender,
        images: &ImageTable,
        thread: ThreadId,
        options: &Options<'_>,
    ) {
        self.forget();
        self.list_only(thread);
        self.take_listed(suspender.session(), images, options, None);
    }

    /// Captures the calling thread and no other, from `registers` outward: its own, or those that a signal has interrupted. Nobody
    /// is stopped. The earlier content is lost.
    ///
    /// # Signal safety
    /// Safe, with about 12 KiB of stack. It does not wait.
    pub fn capture_own(&mut self, images: &ImageTable, registers: &Registers, options: &Options<'_>) {
        self.forget();
        self.list_only(threads::current());
        self.take_listed(Err(SuspendError::Itself), images, options, Some(registers));
    }

    /// Where the function begins that `lookup` lies in, as far as the unwind tables of its image know.
    ///
    /// # Signal safety
    /// Safe.
    pub fn function_start(&mut self, images: &ImageTable, lookup: u64) -> Option<u64> {
        self.context.function_start(images, ProcessMemory::new(), lookup)
    }

    /// Captures the threads that were listed. `own` are the capturing thread's registers, if not those of this call.
    pub(super) fn take_listed(
        &mut self,
        session: Result<Session, SuspendError>,
        images: &ImageTable,
        options: &Options<'_>,
        own: Option<&Registers>,
    ) {
        let give_up = sys::monotonic().saturating_add(options.all_within_ns);
        let (pac, me) = (self.head.pac, threads::current());
        let time_left = || give_up.saturating_sub(sys::monotonic());
        // Who was not captured has its name and its state all the same, in bounded time.
        let facts_left = || give_up.saturating_add(FACTS_WITHIN_NS).saturating_sub(sys::monotonic());
        let ground = Ground { images, pac, tables: ProcessMemory::new(), context: &mut self.context };
        let walks = Walks { ground, memory: ProcessMemory::new(), stack: &mut self.stack };
        let mut taker = Taker::begin(session, own, walks, &mut self.hall, options);
        let mut frames = Frames { all: &mut self.frames, used: 0 };

        // The first thread does not wait for what is asked about the others. Where stopping a thread changes what there
        // is to say of it, theirs is all asked before the first of them is stopped: one can wake another.
        let listed = self.threads.get_mut(..self.head.threads).unwrap_or(&mut []);
        let together = options.purpose == Purpose::AllTogether;
        if threads::STOPPING_DISTURBS && together {
            // Most of the time is for holding them. Who was not asked about then is so later.
            let early = sys::monotonic().saturating_add(options.all_within_ns / EARLY_FACTS);
            learn_facts(Some(listed), &|| early.saturating_sub(sys::monotonic()));
        } else if threads::STOPPING_DISTURBS {
            learn_facts(listed.get_mut(..1), &facts_left);
        }
        if together {
            let (count, beyond) = taker.take_together(&mut self.threads, self.head.threads, time_left());
            // Threads that have begun meanwhile, too.
            learn_facts(self.threads.get_mut(..count), &facts_left);
            self.head.threads = count;
            self.head.dropped = self.head.dropped.max(beyond);
        }
        let threads = self.threads.get_mut(..self.head.threads).unwrap_or(&mut []);
        for index in 0..threads.len() {
            let first = index == 0;
            if index == 1 && threads::STOPPING_DISTURBS && !together {
                learn_facts(threads.get_mut(1..), &facts_left);
            }
            let left = threads.len().saturating_sub(index);
            let Some(thread) = threads.get_mut(index) else { break };
            let (depth, mut patience) = match first {
                true => (options.first_depth, options.first_patience),
                false => (options.other_depth, options.other_patience),
            };
            let still = if first { options.still } else { &|| true };
            let time_left_ns = time_left();
            // Where so many threads run that the time is up before anything was done, the one that matters most still
            // has its own; and the calling thread is not waited for.
            let waits_for_its_turn = !first && thread.thread != me;
            if waits_for_its_turn {
                patience.stop_within_ns = patience.stop_within_ns.min(time_left_ns);
            }
            let mut share = frames.share(depth, first, left);
            thread.first_frame = share.start;
            // Who was held with the others waits for nobody: it is only walked, while there is time for that.
            let only_walked = taker.has(index) && facts_left() > 0;
            if waits_for_its_turn && time_left_ns == 0 && !only_walked {
                thread.held = Held::Not(SuspendError::OutOfTime);
            } else {
                taker.take(index, thread, &mut share, patience, still);
            }
            frames.used = frames.used.saturating_add(thread.summary.kept);
            if first {
                // Before the others use its time up.
                let this = threads.get_mut(..1).unwrap_or(&mut []);
                taker.take_rest(this, &mut frames, (Some(still), depth), patience, &|| {
                    patience.stop_within_ns
                });
            }
        }
        taker.take_rest(
            threads,
            &mut frames,
            (None, options.other_depth),
            options.other_patience,
            &time_left,
        );
        taker.take_late(threads, &mut frames, options.other_depth, options.other_patience, &time_left);
        self.head.set = taker.set();
        self.head.frames = frames.used;
        drop(taker);
        if !threads::STOPPING_DISTURBS {
            learn_facts(Some(threads), &facts_left);
        }
        threads.iter_mut().filter(|thread| !locks::agrees(thread)).for_each(|thread| thread.lock = None);
        self.head.ended_ns = sys::monotonic();
    }

    fn forget(&mut self) {
        let started_ns = sys::monotonic();
        let (set, pac) = (Set::OneByOne, pac_mask());
        self.head = Head { threads: 0, frames: 0, dropped: 0, set, started_ns, ended_ns: started_ns, pac };
    }

    /// Lists one thread, where the others cannot be listed or are not wanted.
    pub(super) fn list_only(&mut self, thread: ThreadId) {
        if let Some(slot) = self.threads.first_mut() {
            *slot = ThreadCapture { thread, main: threads::is_main(thread), ..ThreadCapture::EMPTY };
            self.head.threads = 1;
        }
    }

    /// Forgets the earlier content, and lists who is to be captured: the first, the main thread, then the others in the
    /// kernel's order.
    pub(super) fn list(&mut self, options: &Options<'_>) -> Result<Listing, SnapshotError> {
        self.forget();
        let listing = Listing::take(&mut self.ids).map_err(SnapshotError::Threads)?;
        self.head.dropped = listing.count().saturating_sub(THREADS);
        let ids = self.ids.get(..listing.count().min(THREADS)).unwrap_or(&[]);
        let main = listing.main();
        let first = options.first.unwrap_or(main);
        let others = ids.iter().copied().filter(|thread| *thread != first && *thread != main);
        // The first is listed even if it has ended: its place must not go to another one.
        let leading = [first, main].into_iter().take(if first == main { 1 } else { 2 });
        for thread in leading.chain(others).filter(|thread| !options.exclude.contains(thread)) {
            if let Some(slot) = self.threads.get_mut(self.head.threads) {
                *slot = ThreadCapture { thread, main: thread == main, ..ThreadCapture::EMPTY };
                self.head.threads = self.head.threads.saturating_add(1);
            }
        }
        Ok(listing)
    }
}

/// How long threads are asked about when the time for stopping them is up.
const FACTS_WITHIN_NS: u64 = 500_000_000;

/// Which part of the time for stopping threads may be used up by questions before they are held together.
const EARLY_FACTS: u64 = 8;

/// Asks about threads that were not asked about, and for which lock each of them waits, while there is time: about the first
/// of them in any case.
fn learn_facts(threads: Option<&mut [ThreadCapture]>, time_left: &dyn Fn() -> u64) {
    let me = threads::current();
    let mut memory = ProcessMemory::new();
    let threads = threads.unwrap_or(&mut []);
    for index in 0..threads.len() {
        if threads.get(index).is_none_or(|thread| thread.facts != ThreadFacts::UNKNOWN) {
            continue;
        }
        if index > 0 && time_left() == 0 {
            return;
        }
        let Some(thread) = threads.get_mut(index) else { return };
        thread.facts = threads::facts(thread.thread);
        if thread.thread == me {
            // It is in the one that answers.
            thread.facts.system_call = None;
            continue;
        }
        let lock = threads.get(index).and_then(|thread| locks::learn(&mut memory, thread, threads));
        if let Some(thread) = threads.get_mut(index) {
            thread.lock = lock;
        }
    }
}
