//! One thread at a time, by the kernel's own suspension.

use super::Hall;
use super::stop::Stop;
use crate::snapshot::capture::Options;
use crate::snapshot::frames::{Frames, Share};
use crate::snapshot::walks::Walks;
use crate::snapshot::{Held, Set, ThreadCapture};
use crate::suspend::{Patience, Session, SuspendError};
use crate::threads::{self, ThreadId};
use crate::walk::Depth;
use freezeframe_arch::Registers;

/// How a thread was held that was stopped.
pub(super) const fn stopped(held_ns: u64) -> Held {
    Held::Mach { held_ns }
}

/// Takes one thread after the other.
pub(in super::super) struct Taker<'a> {
    walks: Walks<'a>,
    session: Result<Session, SuspendError>,
    /// The capturing thread's registers, if not those of the call that takes it.
    own: Option<&'a Registers>,
    me: ThreadId,
}

impl<'a> Taker<'a> {
    pub(in super::super) fn begin<const THREADS: usize, const ARENA: usize>(
        session: Result<Session, SuspendError>,
        own: Option<&'a Registers>,
        walks: Walks<'a>,
        _hall: &'a mut Hall<THREADS, ARENA>,
        _options: &'a Options<'a>,
    ) -> Self {
        Self { walks, session, own, me: threads::current() }
    }

    /// Threads are held one at a time.
    pub(in super::super) fn take_together(
        &mut self,
        _threads: &mut [ThreadCapture],
        listed: usize,
        _stop_within_ns: u64,
    ) -> (usize, usize) {
        (listed, 0)
    }

    pub(in super::super) fn take(
        &mut self,
        _index: usize,
        thread: &mut ThreadCapture,
        share: &mut Share<'_>,
        patience: Patience,
        still: &dyn Fn() -> bool,
    ) {
        if thread.thread == self.me {
            return self.walks.take_own(self.own, thread, share);
        }
        let taken = match &mut self.session {
            Ok(session) => {
                let stop = Stop { session, thread: thread.thread, patience };
                self.walks.take(thread, share, still, stop)
            }
            Err(error) => Err(*error),
        };
        if let Err(error) = taken {
            thread.held = Held::Not(error);
        }
    }

    /// There is no other way for the rest.
    pub(in super::super) fn take_rest(
        &mut self,
        _threads: &mut [ThreadCapture],
        _frames: &mut Frames<'_>,
        _still_and_depth: (Option<&dyn Fn() -> bool>, Depth),
        _patience: Patience,
        _time_left_ns: &dyn Fn() -> u64,
    ) {
    }

    /// Nor is there anybody who comes late: threads are suspended whether they have a processor or not.
    pub(in super::super) fn take_late(
        &mut self,
        _threads: &mut [ThreadCapture],
        _frames: &mut Frames<'_>,
        _depth: Depth,
        _patience: Patience,
        _time_left_ns: &dyn Fn() -> u64,
    ) {
    }

    /// No stack is there before its turn.
    pub(in super::super) fn has(&self, _index: usize) -> bool {
        false
    }

    pub(in super::super) fn set(&self) -> Set {
        Set::OneByOne
    }
}
