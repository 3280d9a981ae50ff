//! Looking at a thread that waits.

use crate::memory::ProcessMemory;
use crate::rule::KnownRegisters;
use crate::snapshot::Held;
use crate::snapshot::walks::{Hold, Holder};
use crate::suspend::SuspendError;
use crate::suspend::linux::Peek;
use crate::threads::ThreadId;
use freezeframe_arch::Registers;

/// A look at a thread.
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
