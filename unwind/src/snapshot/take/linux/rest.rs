//! Those whom no signal reaches: the helper holds them, as many at a time as there is room for.

use super::seats::{learn, walk_seat, why_not};
use super::{Taker, WINDOW};
use crate::snapshot::frames::Frames;
use crate::snapshot::storage::STACK_WINDOW;
use crate::snapshot::walks::{BENEATH, Reach};
use crate::snapshot::{Held, ThreadCapture};
use crate::suspend::linux::{Request, Room, Seat, SeatState, hold_together};
use crate::suspend::{Patience, SuspendError};
use crate::sys;
use crate::threads::RunState;
use crate::walk::Depth;

/// How long threads that block the signal are given to hear it, all together, and how long between two looks.
const MOMENT: u64 = 10_000_000;
const NAP: u64 = 500_000;

impl Taker<'_> {
    /// The helper takes those whom no signal reaches, a few at a time: as many as there is room for at once, since all of
    /// them stop in the time that one does. `still` is asked of the thread that matters most, which is taken before
    /// the others are walked that were held together, and so elsewhere than where these are.
    pub(in super::super::super) fn take_rest(
        &mut self,
        threads: &mut [ThreadCapture],
        frames: &mut Frames<'_>,
        (still, depth): (Option<&dyn Fn() -> bool>, Depth),
        patience: Patience,
        time_left_ns: &dyn Fn() -> u64,
    ) {
        let first = still.is_some();
        if !first {
            self.take_who_hears_again(threads, frames, depth, patience, time_left_ns);
        }
        let mut rest = threads;
        loop {
            let stop_within_ns = patience.stop_within_ns.min(time_left_ns());
            if stop_within_ns == 0 {
                rest.iter_mut().filter(|thread| thread.left_for_helper).for_each(|thread| {
                    not_helped(thread, SuspendError::OutOfTime);
                });
                return;
            }
            let bytes =
                if first { self.walks.stack.len() } else { self.arena.len().max(self.walks.stack.len()) };
            let (few @ 1.., beyond) = self.seat_some(rest, bytes / WINDOW) else { return };
            let request = Request {
                exclude: self.options.exclude,
                everybody: false,
                main_stack: self.walks.ground.images.main_stack(),
                beneath: BENEATH,
                stop_within_ns,
                straggler_ns: patience.stop_within_ns,
                hold_at_most_ns: patience.hold_at_most_ns,
            };
            let arena =
                if bytes > self.walks.stack.len() { &mut *self.arena } else { &mut *self.walks.stack };
            let window = bytes.checked_div(few).unwrap_or(0).min(STACK_WINDOW);
            let (first_window, other_window) = (window, window);
            let room = Room { seats: self.seats, taken: few, arena, first_window, other_window };
            let (helped, _) = hold_together(&request, room);
            // They run again; if it is not over now, it was not over then.
            let moved = still.is_some_and(|still| !still());
            let (these, others) = rest.split_at_mut_checked(beyond).unwrap_or((&mut [], &mut []));
            let mut left = waiting(others).saturating_add(few);
            for index in 0..few {
                let seats = self.seats.get(..few).unwrap_or(&[]);
                let Some(seat) = seats.get(index) else { break };
                let Some(thread) = these.iter_mut().find(|thread| thread.thread == seat.thread) else {
                    break;
                };
                if seat.state == SeatState::Read {
                    let mut share = frames.share(depth, first, left);
                    let before = *thread;
                    thread.moved = moved;
                    let arena =
                        if bytes > self.walks.stack.len() { &*self.arena } else { &*self.walks.stack };
                    let reach = walk_seat(&mut self.walks.ground, arena, seat, thread, &mut share);
                    if keeps_peek(&before, thread, reach) {
                        *thread = before;
                    } else {
                        frames.used = frames.used.saturating_add(thread.summary.kept);
                        self.explain(thread);
                    }
                } else {
                    not_helped(thread, why_not(seat, &helped, seats));
                }
                left = left.saturating_sub(1);
            }
            learn(&helped, self.seats.get(..few).unwrap_or(&[]));
            rest = others;
        }
    }

    /// Where more threads run than there are processors, some do not get one in the time that each is given. They have what is left
    /// of the time for all, each by itself, so that nobody is held for as long as another is waited for.
    pub(in super::super::super) fn take_late(
        &mut self,
        threads: &mut [ThreadCapture],
        frames: &mut Frames<'_>,
        depth: Depth,
        patience: Patience,
        time_left_ns: &dyn Fn() -> u64,
    ) {
        let is_late = |thread: &ThreadCapture| {
            thread.held == Held::Not(SuspendError::NotInTime) && thread.facts.state == RunState::Running
        };
        let others = || 1..threads.len();
        let mut left = threads.get(others()).unwrap_or(&[]).iter().filter(|thread| is_late(thread)).count();
        for index in others() {
            let Some(thread) = threads.get_mut(index).filter(|thread| is_late(thread)) else { continue };
            let stop_within_ns = time_left_ns().checked_div(left as u64).unwrap_or(0);
            if stop_within_ns == 0 {
                return;
            }
            let patience = Patience { stop_within_ns, ..patience };
            let mut share = frames.share(depth, false, left);
            thread.first_frame = share.start;
            self.take(index, thread, &mut share, patience, &|| true);
            frames.used = frames.used.saturating_add(thread.summary.kept);
            self.take_rest(core::slice::from_mut(thread), frames, (None, depth), patience, time_left_ns);
            left = left.saturating_sub(1);
        }
    }

    /// Who has blocked the signal for a moment only is stopped by one after all: it is in the handler of another, or still in
    /// ours, whose stack the helper would not see beyond.
    fn take_who_hears_again(
        &mut self,
        threads: &mut [ThreadCapture],
        frames: &mut Frames<'_>,
        depth: Depth,
        patience: Patience,
        time_left_ns: &dyn Fn() -> u64,
    ) {
        let was_deaf = |thread: &&mut ThreadCapture| {
            thread.left_for_helper && thread.held == Held::Not(SuspendError::SignalBlocked)
        };
        let until = sys::monotonic().saturating_add(MOMENT.min(time_left_ns() / 4));
        loop {
            let (mut deaf, mut left) = (false, waiting(threads));
            for thread in threads.iter_mut().filter(was_deaf) {
                let stop_within_ns = patience.stop_within_ns.min(time_left_ns());
                if self.is_deaf(thread.thread) {
                    deaf = true;
                } else if stop_within_ns > 0 {
                    let mut share = frames.share(depth, false, left);
                    thread.first_frame = share.start;
                    let patience = Patience { stop_within_ns, ..patience };
                    match self.signal(thread, &mut share, patience, &|| true) {
                        Ok(_) => {
                            thread.left_for_helper = false;
                            frames.used = frames.used.saturating_add(thread.summary.kept);
                            self.explain(thread);
                        }
                        Err(error) => thread.held = Held::Not(error),
                    }
                }
                left = left.saturating_sub(1);
            }
            if !deaf || sys::monotonic() >= until {
                return;
            }
            sys::sleep(NAP);
        }
    }

    /// Gives seats to the first threads that wait for the helper, to `most` of them. Returns how many these are, and behind how many
    /// threads the others come.
    fn seat_some(&mut self, threads: &mut [ThreadCapture], most: usize) -> (usize, usize) {
        let mut few = 0usize;
        for (index, thread) in threads.iter_mut().enumerate().filter(|(_, thread)| thread.left_for_helper) {
            match self.seats.get_mut(few) {
                Some(seat) if few < most => *seat = Seat::of(thread.thread),
                _ => return (few, index),
            }
            thread.left_for_helper = false;
            few = few.saturating_add(1);
        }
        (few, threads.len())
    }
}

/// Whether what a peek has found of a thread is worth more than what the helper has: it may have followed the stack to where
/// the one piece that the helper copies does not reach.
fn keeps_peek(peeked: &ThreadCapture, helped: &ThreadCapture, reach: Reach) -> bool {
    reach != Reach::End && peeked.registers.is_some() && seen(peeked) >= seen(helped)
}

/// Notes why the helper has not read a thread either.
fn not_helped(thread: &mut ThreadCapture, error: SuspendError) {
    thread.left_for_helper = false;
    match thread.held {
        Held::Not(earlier) => (thread.held, thread.not_better) = (Held::Not(error), Some(earlier)),
        _ => thread.not_better = Some(error),
    }
}

/// How many frames were seen.
fn seen(thread: &ThreadCapture) -> u64 {
    thread.summary.omitted.saturating_add(thread.summary.kept as u64)
}

fn waiting(threads: &[ThreadCapture]) -> usize {
    threads.iter().filter(|thread| thread.left_for_helper).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::{StopReason, Summary};
    use freezeframe_arch::Registers;

    fn walked(held: Held, kept: usize, omitted: u64) -> ThreadCapture {
        let summary =
            Summary { kept, omitted, stop: StopReason::Unreadable(8), ..ThreadCapture::EMPTY.summary };
        ThreadCapture { held, registers: Some(Registers::ZERO), summary, ..ThreadCapture::EMPTY }
    }

    #[test]
    fn what_a_peek_has_seen_stays_unless_the_helper_has_seen_more_or_all() {
        let helped = |kept, omitted| walked(Held::Ptrace { held_ns: 1 }, kept, omitted);
        let peeked = walked(Held::Peek, 5, 7);
        assert!(
            keeps_peek(&peeked, &helped(4, 7), Reach::Beyond),
            "cut short where the stack goes on elsewhere"
        );
        assert!(keeps_peek(&peeked, &helped(12, 0), Reach::Short), "as many, and nobody was stopped");
        assert!(!keeps_peek(&peeked, &helped(6, 7), Reach::Beyond), "one more");
        assert!(!keeps_peek(&peeked, &helped(1, 0), Reach::End), "there are no others");
        let nothing = walked(Held::Not(SuspendError::NotInTime), 20, 0);
        let nothing = ThreadCapture { registers: None, ..nothing };
        assert!(!keeps_peek(&nothing, &helped(1, 0), Reach::Short), "it was not read");
    }

    #[test]
    fn who_is_not_helped_either_says_why_and_what_was_tried_before() {
        let mut thread =
            ThreadCapture { held: Held::Not(SuspendError::SignalBlocked), ..ThreadCapture::EMPTY };
        thread.left_for_helper = true;
        not_helped(&mut thread, SuspendError::HelperLate);
        assert_eq!(thread.held, Held::Not(SuspendError::HelperLate));
        assert_eq!((thread.not_better, thread.left_for_helper), (Some(SuspendError::SignalBlocked), false));
        let mut peeked = walked(Held::Peek, 5, 7);
        not_helped(&mut peeked, SuspendError::HelperDied);
        assert_eq!((peeked.held, peeked.not_better), (Held::Peek, Some(SuspendError::HelperDied)));
    }
}
