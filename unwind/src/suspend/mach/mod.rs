//! Suspension on Mach: `thread_suspend`, `thread_get_state`, `thread_resume`.
//!
//! The kernel counts suspensions, so a thread that somebody else has suspended too stays as it is. A call that stops a
//! thread returns when the thread has left the processor; there is nothing to wait for, and no deadline to give.

#[cfg(not(target_os = "watchos"))]
mod stop;
#[cfg(target_os = "watchos")]
mod unsupported;

#[cfg(not(target_os = "watchos"))]
use stop as way;
#[cfg(target_os = "watchos")]
use unsupported as way;

use super::{Patience, Release, SuspendError, exempt};
use crate::sys;
use crate::threads::{self, ThreadId};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};
use freezeframe_arch::Registers;

/// The capturer that holds the session: its process and its thread's port; or zero. Two capturers that stop each other
/// would stand still for good.
static OWNER: AtomicU64 = AtomicU64::new(0);

/// The right to suspend threads of this process. Made by [`init`](crate::init::init).
#[derive(Clone, Copy, Debug)]
pub struct Suspender {
    _made_by_init: (),
}

impl Suspender {
    pub(crate) const fn new() -> Self {
        Self { _made_by_init: () }
    }

    /// Begins a session: one at a time in a process.
    ///
    /// # Errors
    /// [`Busy`](SuspendError::Busy): another thread's session goes on. A session whose thread has ended, or that a fork
    /// has left behind, is taken over. [`Refused`](SuspendError::Refused): the kernel does not say which thread this is.
    ///
    /// # Signal safety
    /// Safe; it tries the lock and does not wait for it.
    pub fn session(&self) -> Result<Session, SuspendError> {
        let me = threads::current();
        // One that does not know itself would stop itself, for good.
        if me == ThreadId(0) {
            return Err(SuspendError::Refused);
        }
        let process = sys::getpid();
        let owner = u64::from(process as u32) << 32 | u64::from(me.0 as u32);
        if let Err(other) = OWNER.compare_exchange(0, owner, Ordering::Acquire, Ordering::Relaxed) {
            let lives =
                (other >> 32) as u32 == process as u32 && threads::is_alive(ThreadId(other as u32 as i32));
            if lives || OWNER.compare_exchange(other, owner, Ordering::Acquire, Ordering::Relaxed).is_err() {
                return Err(SuspendError::Busy);
            }
        }
        Ok(Session { owner, me, _not_send: PhantomData })
    }
}

/// A capturer's session, bound to its thread.
#[derive(Debug)]
pub struct Session {
    owner: u64,
    me: ThreadId,
    _not_send: PhantomData<*const ()>,
}

impl Session {
    /// Stops a thread of this process and reads its registers. It stands still until the guard is released or dropped.
    /// The thread's system call, if it is in one, goes on unaware.
    ///
    /// # Errors
    /// The thread cannot be stopped, or its registers cannot be had; it is not held then.
    ///
    /// # Signal safety
    /// Safe.
    pub fn suspend(&mut self, thread: ThreadId, patience: Patience) -> Result<Suspended<'_>, SuspendError> {
        // The kernel does not return before the thread has stopped: there is nothing to be patient about.
        let _ = patience;
        if thread == self.me {
            return Err(SuspendError::Itself);
        }
        if exempt::contains(thread) {
            return Err(SuspendError::Exempt);
        }
        let before = sys::monotonic();
        let stopped = way::Stopped::new(thread)?;
        let registers = stopped.registers()?;
        Ok(Suspended { stopped, before, registers, _session: PhantomData })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Only what this session owns: a forked child may have taken its copy over.
        let _ = OWNER.compare_exchange(self.owner, 0, Ordering::Release, Ordering::Relaxed);
    }
}

/// A thread that stands still. Dropping lets it go.
#[derive(Debug)]
pub struct Suspended<'a> {
    stopped: way::Stopped,
    before: u64,
    registers: Registers,
    _session: PhantomData<&'a mut Session>,
}

impl Suspended<'_> {
    /// The registers where the thread was stopped. One that is in a system call has its program counter behind that
    /// instruction.
    pub const fn registers(&self) -> &Registers {
        &self.registers
    }

    /// Lets the thread go and says for how long it stood still.
    ///
    /// # Signal safety
    /// Safe.
    pub fn release(self) -> Release {
        let Self { stopped, before, .. } = self;
        drop(stopped);
        Release::Whole { held_ns: sys::monotonic().saturating_sub(before) }
    }
}
