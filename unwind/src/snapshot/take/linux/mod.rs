//! Linux's ways, in the order of the policy: peek, signal, and the helper that holds many at one time.

mod look;
mod rest;
mod seats;

use super::stop::Stop;
use crate::process::ProcessId;
use crate::snapshot::capture::Options;
use crate::snapshot::frames::Share;
use crate::snapshot::storage::STACK_WINDOW;
use crate::snapshot::walks::{BENEATH, Reach, Walks};
use crate::snapshot::{Held, Set, ThreadCapture};
use crate::suspend::linux::{
    Helped, Request, Room, Seat, SeatState, System, goes_on, has_room_for_signal, hold_together, order,
};
use crate::suspend::{Patience, Purpose, Session, SuspendError, Way, exempt};
use crate::threads::{self, RunState, ThreadId};
use crate::walk::StopReason;
use freezeframe_arch::Registers;
pub(in crate::snapshot) use look::Look;
use seats::{held_together, learn, walk_seat, why_nobody, why_not};

/// How much of a stack is copied while all are held, in bytes.
const WINDOW: usize = 16 * 1024;
const PAGE: usize = 4096;
/// How long one thread may keep all the others waiting at least, in nanoseconds.
const STRAGGLER: u64 = 25_000_000;

/// Which part of its time the thread that matters most is waited for while it blocks the signal.
const DEAF_WAITS: u64 = 4;

/// How a thread was held that was stopped by itself.
pub(super) const fn stopped(held_ns: u64) -> Held {
    Held::Signal { held_ns }
}

/// Room for threads that are held together.
#[derive(Debug)]
pub(in super::super) struct Hall<const THREADS: usize, const ARENA: usize> {
    seats: [Seat; THREADS],
    arena: [u8; ARENA],
}

impl<const THREADS: usize, const ARENA: usize> Hall<THREADS, ARENA> {
    pub(in super::super) const EMPTY: Self = Self { seats: [Seat::EMPTY; THREADS], arena: [0; ARENA] };
}

/// Takes threads, one by one or together.
pub(in super::super) struct Taker<'a> {
    walks: Walks<'a>,
    session: Result<Session, SuspendError>,
    /// The capturing thread's registers, if not those of the call that takes it.
    own: Option<&'a Registers>,
    seats: &'a mut [Seat],
    arena: &'a mut [u8],
    options: &'a Options<'a>,
    system: System,
    me: ThreadId,
    /// How many seats are taken, and what has become of the helper.
    seated: usize,
    helped: Helped,
    set: Set,
}

impl<'a> Taker<'a> {
    pub(in super::super) fn begin<const THREADS: usize, const ARENA: usize>(
        session: Result<Session, SuspendError>,
        own: Option<&'a Registers>,
        walks: Walks<'a>,
        hall: &'a mut Hall<THREADS, ARENA>,
        options: &'a Options<'a>,
    ) -> Self {
        Self {
            walks,
            session,
            own,
            seats: &mut hall.seats,
            arena: &mut hall.arena,
            options,
            system: System::learn(),
            me: threads::current(),
            seated: 0,
            helped: Helped { end: Ok(()), standing: 0 },
            set: Set::OneByOne,
        }
    }

    /// Whether the threads were held at one time.
    pub(in super::super) const fn set(&self) -> Set {
        self.set
    }

    /// Holds the first `listed` of the threads together with those that have begun meanwhile, which come behind them.
    /// Returns how many there are now, and for how many there was no room.
    pub(in super::super) fn take_together(
        &mut self,
        threads: &mut [ThreadCapture],
        listed: usize,
        stop_within_ns: u64,
    ) -> (usize, usize) {
        let [(_, may), ..] = order(Purpose::AllTogether, self.options.ways, &self.system, false);
        let may = may.and(if self.arena.is_empty() { Err(SuspendError::NoArena) } else { Ok(()) });
        if let Err(error) = may.and(self.session.as_ref().map(|_| ()).map_err(|error| *error)) {
            self.set = Set::NotTogether(error);
            return (listed, 0);
        }
        for (seat, thread) in self.seats.iter_mut().zip(threads.iter().take(listed)) {
            *seat = Seat::of(thread.thread);
            // Neither a signal nor a tracer ends such a wait.
            if thread.facts.state == RunState::Uninterruptible {
                seat.state = SeatState::LeftOut;
            }
        }
        // Pages that are not there yet would be made while everybody waits.
        for page in self.arena.chunks_mut(PAGE).take(listed.saturating_mul(WINDOW / PAGE)) {
            page.iter_mut().take(1).for_each(|byte| *byte = core::hint::black_box(0));
        }
        let patience = self.options.first_patience;
        let request = Request {
            exclude: self.options.exclude,
            everybody: true,
            main_stack: self.walks.ground.images.main_stack(),
            beneath: BENEATH,
            stop_within_ns: patience.stop_within_ns.min(stop_within_ns),
            straggler_ns: self.options.other_patience.stop_within_ns.max(STRAGGLER),
            hold_at_most_ns: patience.hold_at_most_ns,
        };
        let room = Room {
            seats: self.seats,
            taken: listed,
            arena: self.arena,
            first_window: STACK_WINDOW,
            other_window: WINDOW,
        };
        (self.helped, self.seated) = hold_together(&request, room);
        let seats = self.seats.get(..self.seated).unwrap_or(&[]);
        learn(&self.helped, seats);
        self.set = match (held_together(seats), why_nobody(&self.helped, seats, self.me)) {
            (Some(held), _) => Set::Together { held_ns: held.end.saturating_sub(held.start) },
            (None, Some(error)) => Set::NotTogether(error),
            // There is nobody else.
            (None, None) => Set::Together { held_ns: 0 },
        };
        for (thread, seat) in threads.iter_mut().zip(seats).skip(listed) {
            *thread = ThreadCapture { thread: seat.thread, ..ThreadCapture::EMPTY };
        }
        (self.seated, self.helped.standing)
    }

    /// Whether a thread's stack is there already.
    pub(in super::super) fn has(&self, index: usize) -> bool {
        index < self.seated && self.seats.get(index).is_some_and(|seat| seat.state == SeatState::Read)
    }

    /// Takes the thread whose place in the snapshot is `index` in the best way that works.
    pub(in super::super) fn take(
        &mut self,
        index: usize,
        thread: &mut ThreadCapture,
        share: &mut Share<'_>,
        patience: Patience,
        still: &dyn Fn() -> bool,
    ) {
        self.take_somehow(index, thread, share, patience, still);
        self.explain(thread);
    }

    /// A walk that has ended early for want of memory that can be read, whichever, says so.
    fn explain(&mut self, thread: &mut ThreadCapture) {
        if thread.registers.is_some()
            && thread.summary.stop != StopReason::EndOfStack
            && let Some(refused) = self.walks.memory.refused()
        {
            thread.summary.stop = StopReason::MemoryRefused {
                process_vm_readv: refused.process_vm_readv as u16,
                pipe2: refused.pipe2 as u16,
            };
        }
    }

    fn take_somehow(
        &mut self,
        index: usize,
        thread: &mut ThreadCapture,
        share: &mut Share<'_>,
        patience: Patience,
        still: &dyn Fn() -> bool,
    ) {
        if thread.thread == self.me {
            return self.walks.take_own(self.own, thread, share);
        }
        if exempt::contains(thread.thread) {
            thread.held = Held::Not(SuspendError::Exempt);
            return;
        }
        let runs = thread.facts.state == RunState::Running && thread.facts.system_call.is_none();
        let (mut not_better, mut why_not, mut kept) = (None, None, None);
        let ways = order(self.options.purpose, self.options.ways, &self.system, runs);
        let one_by_one = self.options.purpose == Purpose::OneThread;
        let helper_follows = one_by_one && self.session.is_ok() && ways.contains(&(Way::Ptrace, Ok(())));
        for (way, may) in ways {
            let result = match (way, may) {
                (_, Err(error)) => Err(error),
                (Way::Peek, _) => self.peek(thread, share, still),
                (Way::Signal | Way::Ptrace, _)
                    if one_by_one && self.would_interrupt(index, thread, way, helper_follows) =>
                {
                    Err(SuspendError::WouldInterrupt)
                }
                (Way::Signal, _) if helper_follows && self.is_deaf(thread.thread) => match index {
                    // It may be so for a moment only: in the handler of a signal, our own too.
                    0 => {
                        let stop_within_ns = patience.stop_within_ns / DEAF_WAITS;
                        self.signal(thread, share, Patience { stop_within_ns, ..patience }, still)
                    }
                    _ => Err(SuspendError::SignalBlocked),
                },
                // It waits for a processor: so it would in a signal's case, and the next for longer.
                (Way::Signal, _) if why_not == Some(SuspendError::NotInTime) && self.may_be_tried_again() => {
                    Err(SuspendError::NotInTime)
                }
                (Way::Signal, _) => self.signal(thread, share, patience, still),
                (Way::Ptrace, _) if one_by_one => match &self.session {
                    Ok(_) => {
                        thread.left_for_helper = true;
                        continue;
                    }
                    Err(error) => Err(*error),
                },
                (Way::Ptrace, _) => self.seated_at(index, thread, share, still),
            };
            let error = match (way, result) {
                (_, Ok(Reach::End)) | (Way::Signal, Ok(_)) | (Way::Ptrace, Ok(Reach::Short)) => {
                    thread.not_better = not_better;
                    thread.left_for_helper = false;
                    return;
                }
                (Way::Ptrace, Ok(Reach::Beyond)) => SuspendError::NoArena,
                (_, Ok(_)) => SuspendError::TwoRegisters,
                (_, Err(error)) => error,
            };
            if result.is_ok() {
                kept = kept.or(Some(*thread));
            }
            not_better = Some(error);
            // What was not allowed says less than what was, and has failed.
            if error != SuspendError::NotAllowed && (way != Way::Peek || error == SuspendError::Gone) {
                why_not = why_not.or(Some(error));
            }
            if error == SuspendError::Gone {
                break;
            }
        }
        if let Some(kept) = kept {
            *thread = ThreadCapture { left_for_helper: thread.left_for_helper, ..kept };
        } else {
            let error = why_not.or(not_better).unwrap_or(SuspendError::NotAllowed);
            thread.held = Held::Not(error);
            // It kept all others waiting; by itself it may have more time.
            thread.left_for_helper |= error == SuspendError::NotInTime && self.may_be_tried_again();
        }
        thread.not_better = not_better;
    }

    /// Whether a thread waits in a call that this way of stopping it would end, and a better one is to come, or nobody has
    /// allowed that.
    fn would_interrupt(&self, index: usize, thread: &ThreadCapture, way: Way, helper_follows: bool) -> bool {
        let Some(call) = thread.facts.system_call else { return false };
        if goes_on(&call, way) || !self.options.ways.contains(Way::Peek) {
            return false;
        }
        let is_allowed = index == 0 && self.options.interrupt;
        !is_allowed || way == Way::Signal && helper_follows && goes_on(&call, Way::Ptrace)
    }

    /// Whether the helper has held threads together, and so may hold a few of them once more.
    fn may_be_tried_again(&self) -> bool {
        self.helped.end.is_ok() && self.seated > 0
    }

    /// Whether no signal reaches a thread: one would be waited for in vain, and for all of its time.
    fn is_deaf(&self, thread: ThreadId) -> bool {
        self.session.as_ref().is_ok_and(|session| session.is_blocked_by(thread))
    }

    fn peek(
        &mut self,
        thread: &mut ThreadCapture,
        share: &mut Share<'_>,
        still: &dyn Fn() -> bool,
    ) -> Result<Reach, SuspendError> {
        self.walks.take(thread, share, still, Look { process: ProcessId::Own, thread: thread.thread })
    }

    fn signal(
        &mut self,
        thread: &mut ThreadCapture,
        share: &mut Share<'_>,
        patience: Patience,
        still: &dyn Fn() -> bool,
    ) -> Result<Reach, SuspendError> {
        let session = self.session.as_mut().map_err(|error| *error)?;
        if !has_room_for_signal(thread.thread, self.walks.ground.images.main_stack(), self.walks.stack) {
            return Err(SuspendError::LittleStack);
        }
        self.walks.take(thread, share, still, Stop { session, thread: thread.thread, patience })
    }

    /// Walks what the helper has copied of a thread.
    fn seated_at(
        &mut self,
        index: usize,
        thread: &mut ThreadCapture,
        share: &mut Share<'_>,
        still: &dyn Fn() -> bool,
    ) -> Result<Reach, SuspendError> {
        if let (Set::NotTogether(error), 0) = (self.set, self.seated) {
            return Err(error);
        }
        let seats = self.seats.get(..self.seated).unwrap_or(&[]);
        let seat = seats.get(index).unwrap_or(&Seat::EMPTY);
        if seat.state != SeatState::Read {
            return Err(why_not(seat, &self.helped, seats));
        }
        // The threads run again; if it is not over now, it was not over then.
        thread.moved = !still();
        Ok(walk_seat(&mut self.walks.ground, self.arena, seat, thread, share))
    }
}
