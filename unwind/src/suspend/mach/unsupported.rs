//! watchOS gives programs no way to stop a thread.

use crate::suspend::SuspendError;
use crate::threads::ThreadId;
use freezeframe_arch::Registers;

/// Never made.
#[derive(Debug)]
pub(super) enum Stopped {}

impl Stopped {
    pub(super) const fn new(_thread: ThreadId) -> Result<Self, SuspendError> {
        Err(SuspendError::Unsupported)
    }

    pub(super) const fn registers(&self) -> Result<Registers, SuspendError> {
        match *self {}
    }
}
