//! The path of a capture: list, hold, copy, release, walk.

use super::storage::{Head, Snapshot};
use super::{Held, ThreadCapture};
use crate::images::ImageTable;
use crate::init::pac_mask;
use crate::memory::{Memory, ProcessMemory, StackCopy};
use crate::rule::StackBounds;
use crate::suspend::{Patience, Release, Session, SuspendError, Suspender};
use crate::sys;
use crate::threads::{self, Listing, ThreadId, ThreadsError};
use crate::walk::{Backtrace, Depth, Frame, StopReason, Summary, WalkContext, Walker};
use freezeframe_arch::{PacMask, Registers};

/// Whom to capture, how deep, and how long to wait.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The thread that matters most: captured first and at full depth. The default is the main thread.
    pub first: Option<ThreadId>,
    /// Threads to leave out: a monitor's own, a real-time thread that must not be stopped.
    pub exclude: &'a [ThreadId],
    /// How many frames to keep of the first thread.
    pub first_depth: Depth,
    /// How many frames to keep of each other thread.
    pub other_depth: Depth,
    /// How long to wait for the first thread.
    pub first_patience: Patience,
    /// How long to wait for each other thread.
    pub other_patience: Patience,
    /// How long to wait for all threads together, in nanoseconds; those whose turn comes later are listed without stacks.
    pub all_within_ns: u64,
    /// Asked while the first thread is held: whether what is to be captured is still going on.
    pub still: &'a dyn Fn() -> bool,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            first: None,
            exclude: &[],
            first_depth: Depth { innermost: 192, outermost: 64 },
            other_depth: Depth { innermost: 64, outermost: 32 },
            first_patience: Patience { stop_within_ns: 100_000_000, ..Patience::DEFAULT },
            other_patience: Patience { stop_within_ns: 10_000_000, ..Patience::DEFAULT },
            all_within_ns: 500_000_000,
            still: &|| true,
        }
    }
}

impl core::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Options")
            .field("first", &self.first)
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

impl<const THREADS: usize, const FRAMES: usize> Snapshot<THREADS, FRAMES> {
    /// Captures the threads of this process, one after the other: each is held only while its registers and stack are
    /// copied. The earlier content is lost.
    ///
    /// `images` should have been refreshed just before: a frame outside its code ends a walk.
    ///
    /// # Errors
    /// The threads cannot be listed.
    ///
    /// # Signal safety
    /// Safe, with about 6 KiB of stack. It waits, but never for longer than the options say.
    pub fn capture(
        &mut self,
        suspender: &Suspender,
        images: &ImageTable,
        options: &Options<'_>,
    ) -> Result<(), SnapshotError> {
        // Before the session, so that it ends after it: on Mach it then gives rights back, and nobody may be held.
        let _listing = self.list(options)?;
        self.take_listed(suspender.session(), images, options, None);
        Ok(())
    }

    /// Captures the threads that were listed. `own` are the capturing thread's registers, if not those of this call.
    pub(super) fn take_listed(
        &mut self,
        mut session: Result<Session, SuspendError>,
        images: &ImageTable,
        options: &Options<'_>,
        own: Option<&Registers>,
    ) {
        let me = threads::current();
        let threads = self.threads.get_mut(..self.head.threads).unwrap_or(&mut []);
        let give_up = sys::monotonic().saturating_add(options.all_within_ns);
        let tables = ProcessMemory::new();
        let walks = Walks { images, pac: self.head.pac, tables, context: &mut self.context };
        let mut taker = Taker { walks, memory: ProcessMemory::new(), stack: &mut self.stack };
        for index in 0..threads.len() {
            let first = index == 0;
            // The first thread does not wait for what is asked about the others. Where stopping a thread changes what
            // there is to say of it, theirs is all asked before the first of them is stopped: one can wake another.
            match index {
                0 if threads::STOPPING_DISTURBS => learn_facts(threads.get_mut(..1)),
                1 if threads::STOPPING_DISTURBS => learn_facts(threads.get_mut(1..)),
                _ => {}
            }
            let left = threads.len().saturating_sub(index);
            let Some(thread) = threads.get_mut(index) else { break };
            let (depth, mut patience) = match first {
                true => (options.first_depth, options.first_patience),
                false => (options.other_depth, options.other_patience),
            };
            let still = if first { options.still } else { &|| true };
            // A fair share for those still to come; half of everything for the first.
            let frames = self.frames.get_mut(self.head.frames..).unwrap_or(&mut []);
            let share = frames.len().checked_div(if first { 2 } else { left }).unwrap_or(0);
            let room = depth.innermost.saturating_add(depth.outermost).min(share.max(1)).min(frames.len());
            let storage = frames.get_mut(..room).unwrap_or(&mut []);
            let depth = fit(depth, room);
            let time_left = give_up.saturating_sub(sys::monotonic());
            patience.stop_within_ns = patience.stop_within_ns.min(time_left);

            thread.first_frame = self.head.frames;
            match &mut session {
                _ if thread.thread == me => taker.take_own(own, thread, storage, depth),
                Ok(_) if time_left == 0 => thread.held = Held::Not(SuspendError::OutOfTime),
                Ok(session) => taker.take(session, patience, thread, storage, depth, still),
                Err(error) => thread.held = Held::Not(*error),
            }
            // What this thread did not need is the next one's.
            self.head.frames = self.head.frames.saturating_add(thread.summary.kept);
        }
        drop(session);
        if !threads::STOPPING_DISTURBS {
            learn_facts(Some(threads));
        }
        self.head.ended_ns = sys::monotonic();
    }

    /// Forgets the earlier content, and lists who is to be captured: the first, the main thread, then the others in the
    /// kernel's order.
    pub(super) fn list(&mut self, options: &Options<'_>) -> Result<Listing, SnapshotError> {
        let started_ns = sys::monotonic();
        self.head =
            Head { threads: 0, frames: 0, dropped: 0, started_ns, ended_ns: started_ns, pac: pac_mask() };
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

fn learn_facts(threads: Option<&mut [ThreadCapture]>) {
    for thread in threads.unwrap_or(&mut []) {
        thread.facts = threads::facts(thread.thread);
    }
}

/// Both ends in proportion, when there is no room for all.
fn fit(depth: Depth, room: usize) -> Depth {
    let wanted = depth.innermost.saturating_add(depth.outermost);
    if wanted <= room {
        return depth;
    }
    let outermost = depth.outermost.saturating_mul(room).checked_div(wanted).unwrap_or(0);
    Depth { innermost: room.saturating_sub(outermost), outermost }
}

/// Takes one thread after the other, with one buffer for their stacks.
struct Taker<'a> {
    walks: Walks<'a>,
    memory: ProcessMemory,
    stack: &'a mut [u8],
}

impl Taker<'_> {
    fn take(
        &mut self,
        session: &mut Session,
        patience: Patience,
        thread: &mut ThreadCapture,
        storage: &mut [Frame],
        depth: Depth,
        still: &dyn Fn() -> bool,
    ) {
        let window_was_enough = self.take_once(session, patience, thread, storage, depth, still, false);
        // The stack goes on elsewhere: a signal handler runs on a stack of its own.
        if !window_was_enough {
            self.take_once(session, patience, thread, storage, depth, still, true);
        }
    }

    /// Returns false if the walk has left the window that was copied. With `walk_held` it may do so.
    #[allow(clippy::too_many_arguments)]
    fn take_once(
        &mut self,
        session: &mut Session,
        patience: Patience,
        thread: &mut ThreadCapture,
        storage: &mut [Frame],
        depth: Depth,
        still: &dyn Fn() -> bool,
        walk_held: bool,
    ) -> bool {
        let held = match session.suspend(thread.thread, patience) {
            Ok(held) => held,
            Err(error) => {
                thread.held = Held::Not(error);
                return true;
            }
        };
        // From here to the release: registers, one copy, and the one question. Further copies and the walk only for a
        // stack that is deeper than the buffer, or in several pieces.
        let registers = *held.registers();
        let bounds = self.walks.bounds(&registers);
        let mut copy = StackCopy::new(self.stack);
        let complete = copy.fill(&mut self.memory, bounds.low, bounds.high);
        thread.moved = !still();
        let mut enough = true;
        let release = if complete && !walk_held {
            let release = held.release();
            let mut window = copy.window();
            thread.summary = self.walks.walk(&registers, bounds, &mut window, storage, depth);
            enough = match thread.summary.stop {
                StopReason::Unreadable(address) => window.read(address, &mut [0]) != 0,
                _ => true,
            };
            release
        } else {
            let mut memory = copy.continue_in(&mut self.memory);
            thread.summary = self.walks.walk(&registers, bounds, &mut memory, storage, depth);
            held.release()
        };
        thread.held = match release {
            Release::Whole { held_ns } => Held::whole(held_ns),
            Release::Torn => Held::Torn,
        };
        thread.note(registers, bounds, copy.copies());
        enough
    }

    /// The capturing thread itself, from here on outward, or from where it was interrupted.
    fn take_own(
        &mut self,
        interrupted: Option<&Registers>,
        thread: &mut ThreadCapture,
        storage: &mut [Frame],
        depth: Depth,
    ) {
        // Here, not in a closure, whose frame would be gone.
        let registers = match interrupted {
            Some(registers) => *registers,
            None => freezeframe_arch::capture(),
        };
        let bounds = self.walks.bounds(&registers);
        let mut copy = StackCopy::new(self.stack);
        copy.fill(&mut self.memory, bounds.low, bounds.high);
        let mut memory = copy.continue_in(&mut self.memory);
        thread.summary = self.walks.walk(&registers, bounds, &mut memory, storage, depth);
        thread.held = Held::Itself;
        thread.note(registers, bounds, copy.copies());
    }
}

/// What all walks share.
struct Walks<'a> {
    images: &'a ImageTable,
    pac: PacMask,
    tables: ProcessMemory,
    context: &'a mut WalkContext,
}

impl Walks<'_> {
    fn bounds(&self, registers: &Registers) -> StackBounds {
        let main = self.images.main_stack();
        let low = registers.sp();
        if main.contains(low) { StackBounds { low, high: main.end } } else { StackBounds::above(low) }
    }

    fn walk<M: Memory>(
        &mut self,
        registers: &Registers,
        bounds: StackBounds,
        memory: &mut M,
        storage: &mut [Frame],
        depth: Depth,
    ) -> Summary {
        let mut walker =
            Walker::new(registers, bounds, self.pac, self.images, &mut self.tables, self.context);
        Backtrace::new(storage, depth).collect(&mut walker, memory)
    }
}
