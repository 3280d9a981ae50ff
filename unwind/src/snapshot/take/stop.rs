//! Stopping one thread by itself.

use super::stopped;
use crate::rule::KnownRegisters;
use crate::snapshot::Held;
use crate::snapshot::walks::{Hold, Holder};
use crate::suspend::{Patience, Release, Session, SuspendError, Suspended};
use crate::threads::ThreadId;
use freezeframe_arch::Registers;

/// Stops a thread, as often as its stack takes.
pub(super) struct Stop<'s> {
    pub(super) session: &'s mut Session,
    pub(super) thread: ThreadId,
    pub(super) patience: Patience,
}

impl Holder for Stop<'_> {
    type Hold<'a>
        = Suspended<'a>
    where
        Self: 'a;

    fn hold(&mut self) -> Result<Suspended<'_>, SuspendError> {
        self.session.suspend(self.thread, self.patience)
    }
}

impl Hold for Suspended<'_> {
    fn registers(&self) -> (Registers, KnownRegisters) {
        (*Suspended::registers(self), KnownRegisters::ALL)
    }

    fn end(self) -> Result<Held, SuspendError> {
        Ok(match self.release() {
            Release::Whole { held_ns } => stopped(held_ns),
            Release::Torn => Held::Torn,
        })
    }
}
