//! What the helper has done for a thread, and why it has not.

use crate::images::Range;
use crate::memory::SliceMemory;
use crate::rule::KnownRegisters;
use crate::snapshot::frames::Share;
use crate::snapshot::walks::{Ground, Reach};
use crate::snapshot::{Held, ThreadCapture};
use crate::suspend::linux::{Helped, HelperError, Seat, SeatState, learn_refusal};
use crate::suspend::{SuspendError, exempt};
use crate::threads::{self, ThreadId};

/// Walks the copy of a thread's stack that the helper has made.
pub(super) fn walk_seat(
    ground: &mut Ground<'_>,
    arena: &[u8],
    seat: &Seat,
    thread: &mut ThreadCapture,
    share: &mut Share<'_>,
) -> Reach {
    let held_ns = seat.held.end.saturating_sub(seat.held.start);
    let bounds = ground.bounds(&seat.registers);
    thread.note(Held::Ptrace { held_ns }, seat.registers, bounds, 1);
    let Range { start, end } = seat.window;
    let bytes = arena.get(start as usize..end as usize).unwrap_or(&[]);
    ground.walk_window(thread, share, KnownRegisters::ALL, SliceMemory::new(seat.base, bytes))
}

/// Within which time those that were read were held; none if nobody was.
pub(super) fn held_together(seats: &[Seat]) -> Option<Range> {
    let read = seats.iter().filter(|seat| seat.state == SeatState::Read).map(|seat| seat.held);
    read.reduce(|all, held| Range { start: all.start.min(held.start), end: all.end.max(held.end) })
}

/// Why the helper has not read a thread.
pub(super) fn why_not(seat: &Seat, helped: &Helped, seats: &[Seat]) -> SuspendError {
    match (seat.state, helped.end) {
        (SeatState::Gone, _) => SuspendError::Gone,
        (SeatState::LeftOut, _) => SuspendError::NotInTime,
        (SeatState::Refused(_), _) if is_forbidden(helped, seats) => SuspendError::Forbidden,
        (SeatState::Refused(_), _) => SuspendError::Traced,
        (_, Err(HelperError::NotMade(_))) if is_forbidden(helped, seats) => SuspendError::Forbidden,
        (_, Err(HelperError::NotMade(_))) => SuspendError::NoHelper,
        (_, Err(HelperError::Died(_))) => SuspendError::HelperDied,
        (_, Err(HelperError::Late(_))) => SuspendError::HelperLate,
        (SeatState::Listed, Ok(())) if is_forbidden(helped, seats) => SuspendError::Forbidden,
        // The helper did not find it in the list: the kernel passes over some while others end.
        (SeatState::Listed, Ok(())) if !threads::is_alive(seat.thread) => SuspendError::Gone,
        (_, Ok(())) => SuspendError::NotInTime,
    }
}

/// Why it has read nobody; none if there was nobody to be read beside the capturing thread, `me`.
pub(super) fn why_nobody(helped: &Helped, seats: &[Seat], me: ThreadId) -> Option<SuspendError> {
    let others = seats.iter().filter(|seat| seat.thread != me && !exempt::contains(seat.thread));
    let nobody_found = helped.end.is_err().then_some(&Seat::EMPTY);
    others.chain(nobody_found).map(|seat| why_not(seat, helped, seats)).find(|why| *why != SuspendError::Gone)
}

/// Whether it is the system that does not let us trace, whomever: it was not one thread that another tracer holds, or
/// that is just about to end.
fn is_forbidden(helped: &Helped, seats: &[Seat]) -> bool {
    const FOR_GOOD: [i32; 3] = [libc::EPERM, libc::ENOSYS, libc::EINVAL];
    if let Err(HelperError::NotMade(number)) = helped.end {
        return FOR_GOOD.contains(&number);
    }
    let refused = |seat: &&Seat| matches!(seat.state, SeatState::Refused(_));
    let accepted =
        |seat: &Seat| matches!(seat.state, SeatState::Interrupted | SeatState::Held | SeatState::Read);
    let unknown = seats.iter().any(|seat| seat.state == SeatState::Refused(libc::ENOSYS));
    unknown || seats.iter().filter(refused).count() > 1 && !seats.iter().any(accepted)
}

/// The next capture need not try what cannot be.
pub(super) fn learn(helped: &Helped, seats: &[Seat]) {
    if is_forbidden(helped, seats) {
        learn_refusal(SuspendError::Forbidden);
    }
}
