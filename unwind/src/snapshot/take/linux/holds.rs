//! The ways of holding one thread by itself.

use crate::memory::ProcessMemory;
use crate::rule::KnownRegisters;
use crate::snapshot::Held;
use crate::snapshot::walks::{Hold, Holder};
use crate::suspend::linux::Peek;
use crate::suspend::{Patience, Release, Session, SuspendError, Suspended};
use crate::threads::ThreadId;
use freezeframe_arch::Registers;

/// Looking at a thread that waits.
pub(super) struct Look {
    pub(super) thread: ThreadId,
}

impl Holder for Look {
    type Hold<'a> = Peek;

    fn hold(&mut self) -> Result<Peek, SuspendError> {
        Peek::begin(self.thread, &mut ProcessMemory::new())
    }
}

impl Hold for Peek {
    fn registers(&self) -> (Registers, KnownRegisters) {
        Peek::registers(self)
    }

    fn end(self) -> Result<Held, SuspendError> {
        if self.still_waits() { Ok(Held::Peek) } else { Err(SuspendError::Changed) }
    }
}

/// Stopping a thread by a signal.
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
            Release::Whole { held_ns } => Held::Signal { held_ns },
            Release::Torn => Held::Torn,
        })
    }
}
