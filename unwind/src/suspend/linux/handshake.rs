//! The capturer's side: sessions, and threads that stand still.

use super::ptrace::{self, Registration};
use super::signal::{self, Handler};
use super::word::{Answer, Shared};
use crate::suspend::{Patience, Release, SuspendError, exempt};
use crate::sys;
use crate::threads::{self, ThreadId, blocks_signal};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicPtr, Ordering};
use freezeframe_arch::Registers;

/// Set once, by the first [`install`].
static SHARED: AtomicPtr<Shared> = AtomicPtr::new(core::ptr::null_mut());

/// The shared state, if it was set up.
pub(super) fn shared() -> Option<&'static Shared> {
    // SAFETY: a pointer that was set points to a mapping that is never unmapped; zeroed memory is a valid `Shared`.
    unsafe { SHARED.load(Ordering::Acquire).as_ref() }
}

/// The address of the word that a thread waits for in our handler; zero before it was set up.
pub(super) fn word_address() -> u64 {
    shared().map_or(0, |shared| shared.address())
}

/// Sets up the handler of `signal` and what the helper needs, once for the process; later calls return what the first one
/// made.
pub(crate) fn install(signal: i32, registration: Registration) -> Result<Suspender, sys::Errno> {
    if let Some(shared) = shared() {
        return Ok(Suspender { shared });
    }
    let page = sys::map_wiped_on_fork(size_of::<Shared>())? as *mut Shared;
    let won =
        SHARED.compare_exchange(core::ptr::null_mut(), page, Ordering::AcqRel, Ordering::Acquire).is_ok();
    // The loser's page stays behind: once in a process's life, and only if two threads begin at the same time.
    if won {
        if let Err(error) = signal::install(signal) {
            // Left to the next call, whose signal may be another. The page stays behind.
            SHARED.store(core::ptr::null_mut(), Ordering::Release);
            return Err(error);
        }
        // Without its stack there is no helper; threads can be stopped one by one all the same.
        let _ = ptrace::prepare(registration);
        threads::reserve();
    }
    // SAFETY: as in `shared`.
    let shared = unsafe { &*SHARED.load(Ordering::Acquire) };
    Ok(Suspender { shared })
}

/// The right to suspend threads of this process. Made by [`init`](crate::init::init).
#[derive(Clone, Copy, Debug)]
pub struct Suspender {
    shared: &'static Shared,
}

impl Suspender {
    /// Begins a session: one at a time in a process. In it the calling thread blocks the handshake's signal.
    ///
    /// # Errors
    /// [`Busy`](SuspendError::Busy): another thread's session goes on. A session whose thread has ended is taken over.
    ///
    /// # Signal safety
    /// Safe; it tries the lock and does not wait for it.
    pub fn session(&self) -> Result<Session, SuspendError> {
        let me = sys::gettid();
        if let Err(other) = self.shared.take(0, me) {
            let lives = threads::is_alive(ThreadId(other));
            if lives || self.shared.take(other, me).is_err() {
                return Err(SuspendError::Busy);
            }
        }
        let mask = sys::signal_mask(libc::SIG_BLOCK, sys::signal_set(signal::number()));
        Ok(Session { shared: self.shared, me, mask, _not_send: PhantomData })
    }

    /// Gives up the session of the calling thread, if it has one that it will never end: a signal handler has found it to
    /// have crashed in it. A thread that it held goes on.
    ///
    /// # Signal safety
    /// Safe.
    pub fn give_up_own_session(&self) {
        self.shared.give_up(sys::gettid());
    }
}

/// A capturer's session, bound to its thread.
#[derive(Debug)]
pub struct Session {
    shared: &'static Shared,
    me: i32,
    mask: sys::SignalSet,
    _not_send: PhantomData<*const ()>,
}

impl Session {
    /// Stops a thread of this process and reads its registers. It stands still until the guard is released or dropped,
    /// and goes on by itself [`Patience::stop_within_ns`] and [`Patience::hold_at_most_ns`] after this call, at the latest.
    ///
    /// Some system calls of the target end with `EINTR` although the handler asks for a restart: `nanosleep`, `poll`,
    /// `epoll_wait` and others that `signal(7)` lists.
    ///
    /// # Errors
    /// The thread cannot be stopped; it is not held then.
    ///
    /// # Signal safety
    /// Safe; it waits for [`Patience::stop_within_ns`] at most.
    pub fn suspend(&mut self, thread: ThreadId, patience: Patience) -> Result<Suspended<'_>, SuspendError> {
        if thread.0 == self.me {
            return Err(SuspendError::Itself);
        }
        if exempt::contains(thread) {
            return Err(SuspendError::Exempt);
        }
        if signal::current_handler() != Handler::Ours {
            return Err(SuspendError::HandlerReplaced);
        }
        let give_up = sys::monotonic().saturating_add(patience.stop_within_ns);
        // The time to stop comes first: a thread that stops late must still be held as long as was asked for.
        let request = self.shared.request(thread, give_up.saturating_add(patience.hold_at_most_ns))?;

        if let Err(error) = sys::tgkill(sys::getpid(), thread.0, signal::number()) {
            self.shared.withdraw(request);
            let gone = error == sys::Errno(libc::ESRCH);
            return Err(if gone { SuspendError::Gone } else { SuspendError::NotSent });
        }
        match self.shared.wait_for_answer(request, give_up) {
            Answer::Parked(parked, registers) => {
                Ok(Suspended { shared: self.shared, parked, registers, _session: PhantomData })
            }
            Answer::Expired => Err(SuspendError::NotInTime),
            Answer::Withdrawn => Err(self.why_not(thread)),
        }
    }

    fn why_not(&self, thread: ThreadId) -> SuspendError {
        match blocks_signal(thread, signal::number()) {
            Some(true) => SuspendError::SignalBlocked,
            None if !threads::is_alive(thread) => SuspendError::Gone,
            Some(false) | None => SuspendError::NotInTime,
        }
    }

    /// Whether a thread blocks the signal that would stop it, as far as the kernel tells.
    pub(crate) fn is_blocked_by(&self, thread: ThreadId) -> bool {
        blocks_signal(thread, signal::number()) == Some(true)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        sys::signal_mask(libc::SIG_SETMASK, self.mask);
        // Only what this session owns: a forked child sees the lock free already.
        self.shared.leave(self.me);
    }
}

/// A thread that stands still. Dropping lets it go.
#[derive(Debug)]
pub struct Suspended<'a> {
    shared: &'static Shared,
    parked: u32,
    registers: Registers,
    _session: PhantomData<&'a mut Session>,
}

impl Suspended<'_> {
    /// The registers where the thread was interrupted. A thread that a signal took out of a system call has its program
    /// counter at that instruction.
    pub const fn registers(&self) -> &Registers {
        &self.registers
    }

    /// Lets the thread go and says for how long it stood still.
    ///
    /// # Signal safety
    /// Safe.
    pub fn release(self) -> Release {
        let stopped_at = self.shared.stopped_at();
        let whole = self.shared.let_go(self.parked);
        let held_ns = sys::monotonic().saturating_sub(stopped_at);
        core::mem::forget(self);
        if whole { Release::Whole { held_ns } } else { Release::Torn }
    }
}

impl Drop for Suspended<'_> {
    fn drop(&mut self) {
        self.shared.let_go(self.parked);
    }
}
