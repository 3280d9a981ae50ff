//! Looking at a thread that waits.

use crate::memory::ProcessMemory;
use crate::process::ProcessId;
use crate::rule::KnownRegisters;
use crate::snapshot::Held;
use crate::snapshot::walks::{Hold, Holder};
use crate::suspend::SuspendError;
use crate::suspend::linux::Peek;
use crate::threads::ThreadId;
use freezeframe_arch::Registers;

/// A look at a thread.
pub(in crate::snapshot) struct Look {
    pub(in crate::snapshot) process: ProcessId,
    pub(in crate::snapshot) thread: ThreadId,
}

impl Holder for Look {
    type Hold<'a> = Peek;

    fn hold(&mut self) -> Result<Peek, SuspendError> {
        Peek::begin(self.process, self.thread, &mut ProcessMemory::of(self.process))
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
