//! Both sides of the handshake: the state that they share, and the capturer's steps.

use super::ptrace::{self, Registration};
use super::signal::{self, Handler};
use crate::suspend::{Patience, Release, SuspendError, exempt};
use crate::sys;
use crate::threads::{self, ThreadId, blocks_signal};
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use freezeframe_arch::Registers;

/// The states of the word's low three bits.
pub(super) mod state {
    pub(in super::super) const IDLE: u32 = 0;
    pub(in super::super) const REQUEST: u32 = 1;
    pub(in super::super) const FILLING: u32 = 2;
    pub(in super::super) const PARKED: u32 = 3;
    pub(in super::super) const RELEASED: u32 = 4;
    pub(in super::super) const EXPIRED: u32 = 5;
    pub(in super::super) const ABANDONED: u32 = 6;
    pub(in super::super) const MASK: u32 = 7;
    /// Added to the word for the next generation.
    pub(in super::super) const GENERATION: u32 = 8;
}

/// What capturer and target share. It lies on a page that is zero again in a forked child: zero is a valid idle state.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Shared {
    /// `generation << 3 | state`.
    pub(super) word: AtomicU32,
    /// The capturer that holds the session, or zero.
    owner: AtomicI32,
    /// The thread that is asked. Written before `REQUEST`.
    pub(super) target: AtomicI32,
    /// When the target goes on by itself, on the monotonic clock. Written before `REQUEST`.
    pub(super) deadline: AtomicU64,
    /// When the target's handler began. Written by the target between `FILLING` and `PARKED`.
    pub(super) stopped_at: AtomicU64,
    /// Written by the target between `FILLING` and `PARKED`, read by the capturer after `PARKED`.
    pub(super) registers: UnsafeCell<MaybeUninit<Registers>>,
}

// SAFETY: everything is atomic but `registers`, which the word hands from one side to the other: the target owns it in
// FILLING and ABANDONED, the capturer from PARKED on.
unsafe impl Sync for Shared {}

/// Set once, by the first [`install`].
static SHARED: AtomicPtr<Shared> = AtomicPtr::new(core::ptr::null_mut());

/// The shared state, if it was set up.
pub(super) fn shared() -> Option<&'static Shared> {
    // SAFETY: a pointer that was set points to a mapping that is never unmapped; zeroed memory is a valid `Shared`.
    unsafe { SHARED.load(Ordering::Acquire).as_ref() }
}

/// The address of the word that a thread waits for in our handler; zero before it was set up.
pub(super) fn word_address() -> u64 {
    shared().map_or(0, |shared| shared.word.as_ptr() as u64)
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
        signal::install(signal)?;
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
        let owner = &self.shared.owner;
        if let Err(other) = owner.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
            let lives = threads::is_alive(ThreadId(other));
            if lives || owner.compare_exchange(other, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
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
        let (me, owner) = (sys::gettid(), &self.shared.owner);
        if owner.load(Ordering::Acquire) != me {
            return;
        }
        let _ = self.shared.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            let to = match word & state::MASK {
                state::PARKED => state::RELEASED,
                state::REQUEST => state::IDLE,
                state::FILLING => state::ABANDONED,
                _ => return None,
            };
            Some(word & !state::MASK | to)
        });
        sys::futex_wake_all(&self.shared.word);
        owner.store(0, Ordering::Release);
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
    /// and goes on by itself after [`Patience::hold_at_most_ns`].
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
        let request = self.begin()?;
        let now = sys::monotonic();
        let give_up = now.saturating_add(patience.stop_within_ns);
        self.shared.target.store(thread.0, Ordering::Relaxed);
        // The time to stop comes first: a thread that stops late must still be held as long as was asked for.
        self.shared.deadline.store(give_up.saturating_add(patience.hold_at_most_ns), Ordering::Relaxed);
        self.shared.word.store(request, Ordering::Release);

        if let Err(error) = sys::tgkill(sys::getpid(), thread.0, signal::number()) {
            self.withdraw(request);
            let gone = error == sys::Errno(libc::ESRCH);
            return Err(if gone { SuspendError::Gone } else { SuspendError::NotSent });
        }
        let parked = request ^ state::REQUEST ^ state::PARKED;
        loop {
            let word = self.shared.word.load(Ordering::Acquire);
            if word == parked {
                // SAFETY: PARKED of this generation: the target has written the registers and will not do so again.
                let registers = unsafe { (*self.shared.registers.get()).assume_init() };
                return Ok(Suspended { shared: self.shared, parked, registers, _session: PhantomData });
            }
            if word == request ^ state::REQUEST ^ state::EXPIRED {
                return Err(SuspendError::NotInTime);
            }
            if sys::monotonic() >= give_up && self.withdraw(request) {
                return Err(self.why_not(thread));
            }
            // Woken, interrupted or timed out: the word tells which.
            let _ = sys::futex_wait_until(&self.shared.word, word, give_up);
        }
    }

    /// The word of the next request, if the last round is over.
    fn begin(&self) -> Result<u32, SuspendError> {
        let word = self.shared.word.load(Ordering::Acquire);
        match word & state::MASK {
            state::IDLE | state::RELEASED | state::EXPIRED => {}
            // Left behind by a capturer that has ended.
            state::REQUEST | state::PARKED => {
                let released = word & !state::MASK | state::RELEASED;
                let swapped =
                    self.shared.word.compare_exchange(word, released, Ordering::AcqRel, Ordering::Relaxed);
                swapped.map_err(|_| SuspendError::Busy)?;
                sys::futex_wake_all(&self.shared.word);
            }
            // A target still writes registers; it will say when it is done.
            _ => return Err(SuspendError::Busy),
        }
        Ok((word & !state::MASK).wrapping_add(state::GENERATION) | state::REQUEST)
    }

    /// Takes a request back. Returns false if the target has answered it meanwhile.
    fn withdraw(&self, request: u32) -> bool {
        let swap = |from: u32, to: u32| {
            let (from, to) = (request ^ state::REQUEST ^ from, request ^ state::REQUEST ^ to);
            self.shared.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        swap(state::REQUEST, state::IDLE) || swap(state::FILLING, state::ABANDONED)
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
        let _ = self.shared.owner.compare_exchange(self.me, 0, Ordering::Release, Ordering::Relaxed);
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
        let stopped_at = self.shared.stopped_at.load(Ordering::Relaxed);
        let whole = self.let_go();
        let held_ns = sys::monotonic().saturating_sub(stopped_at);
        core::mem::forget(self);
        if whole { Release::Whole { held_ns } } else { Release::Torn }
    }

    fn let_go(&self) -> bool {
        let released = self.parked ^ state::PARKED ^ state::RELEASED;
        let whole = self
            .shared
            .word
            .compare_exchange(self.parked, released, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        sys::futex_wake_all(&self.shared.word);
        whole
    }
}

impl Drop for Suspended<'_> {
    fn drop(&mut self) {
        self.let_go();
    }
}
