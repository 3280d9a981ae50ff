//! The word that capturer and target share, and every step that either of them takes on it.

use crate::suspend::SuspendError;
use crate::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Cell, futex_wait_until, futex_wake_all, monotonic};
use crate::sys::Errno;
use crate::threads::ThreadId;
use freezeframe_arch::Registers;

/// The states of the word's low three bits.
mod state {
    pub(super) const IDLE: u32 = 0;
    pub(super) const REQUEST: u32 = 1;
    pub(super) const FILLING: u32 = 2;
    pub(super) const PARKED: u32 = 3;
    pub(super) const RELEASED: u32 = 4;
    pub(super) const EXPIRED: u32 = 5;
    pub(super) const ABANDONED: u32 = 6;
    pub(super) const MASK: u32 = 7;
    /// Added to the word for the next generation.
    pub(super) const GENERATION: u32 = 8;
}

/// The same generation's word in another state.
const fn with(word: u32, state: u32) -> u32 {
    word & !state::MASK | state
}

/// What capturer and target share. It lies on a page that is zero again in a forked child: zero is a valid idle state.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Shared {
    /// `generation << 3 | state`.
    word: AtomicU32,
    /// The capturer that holds the session, or zero.
    owner: AtomicI32,
    /// The thread that is asked. Written before `REQUEST`.
    target: AtomicI32,
    /// When the target goes on by itself, on the monotonic clock. Written before `REQUEST`.
    deadline: AtomicU64,
    /// When the target's handler began. Written by the target between `FILLING` and `PARKED`.
    stopped_at: AtomicU64,
    /// Written by the target between `FILLING` and `PARKED`, read by the capturer after `PARKED`.
    registers: Cell<Registers>,
}

// SAFETY: everything is atomic but `registers`, which the word hands from one side to the other: the target owns it in
// FILLING and ABANDONED, the capturer from PARKED on.
unsafe impl Sync for Shared {}

/// How a request ended.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, on the stack, and no heap")]
pub(super) enum Answer {
    /// The thread stands still: the word of that, and its registers.
    Parked(u32, Registers),
    /// It stood still, and has gone on at its deadline.
    Expired,
    /// It had not answered in time.
    Withdrawn,
}

/// The capturer's steps.
impl Shared {
    /// Takes the session from `from`, a capturer that has ended or zero, for `me`. The one that has it is the error.
    pub(super) fn take(&self, from: i32, me: i32) -> Result<(), i32> {
        self.owner.compare_exchange(from, me, Ordering::Acquire, Ordering::Relaxed).map(drop)
    }

    /// Ends the session of `me`. Not another's: a forked child sees the lock free already.
    pub(super) fn leave(&self, me: i32) {
        let _ = self.owner.compare_exchange(me, 0, Ordering::Release, Ordering::Relaxed);
    }

    /// Ends the session of `me` in the middle, if it is its; a thread that it held goes on.
    pub(super) fn give_up(&self, me: i32) {
        if self.owner.load(Ordering::Acquire) != me {
            return;
        }
        let _ = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            let to = match word & state::MASK {
                state::PARKED => state::RELEASED,
                state::REQUEST => state::IDLE,
                state::FILLING => state::ABANDONED,
                _ => return None,
            };
            Some(with(word, to))
        });
        futex_wake_all(&self.word);
        self.owner.store(0, Ordering::Release);
    }

    /// Asks a thread to stop and to go on by itself at the deadline. Returns the request's word.
    pub(super) fn request(&self, thread: ThreadId, deadline: u64) -> Result<u32, SuspendError> {
        let request = self.next()?;
        self.target.store(thread.0, Ordering::Relaxed);
        self.deadline.store(deadline, Ordering::Relaxed);
        self.word.store(request, Ordering::Release);
        Ok(request)
    }

    /// The word of the next request, if the last round is over.
    fn next(&self) -> Result<u32, SuspendError> {
        let word = self.word.load(Ordering::Acquire);
        match word & state::MASK {
            state::IDLE | state::RELEASED | state::EXPIRED => {}
            // Left behind by a capturer that has ended.
            state::REQUEST | state::PARKED => {
                let released = with(word, state::RELEASED);
                let swapped = self.word.compare_exchange(word, released, Ordering::AcqRel, Ordering::Relaxed);
                swapped.map_err(|_| SuspendError::Busy)?;
                futex_wake_all(&self.word);
            }
            // A target still writes registers; it will say when it is done.
            _ => return Err(SuspendError::Busy),
        }
        Ok(with(word, state::REQUEST).wrapping_add(state::GENERATION))
    }

    /// Waits until the thread stands still, or until `give_up`.
    pub(super) fn wait_for_answer(&self, request: u32, give_up: u64) -> Answer {
        let parked = with(request, state::PARKED);
        loop {
            let word = self.word.load(Ordering::Acquire);
            if word == parked {
                // SAFETY: PARKED of this generation: the target has written the registers and will not do so again.
                return Answer::Parked(parked, unsafe { self.registers.read() });
            }
            if word == with(request, state::EXPIRED) {
                return Answer::Expired;
            }
            if monotonic() >= give_up && self.withdraw(request) {
                return Answer::Withdrawn;
            }
            // Woken, interrupted or timed out: the word tells which.
            let _ = futex_wait_until(&self.word, word, give_up);
        }
    }

    /// Takes a request back. Returns false if the target has answered it meanwhile.
    pub(super) fn withdraw(&self, request: u32) -> bool {
        let swap = |from: u32, to: u32| {
            let (from, to) = (with(request, from), with(request, to));
            self.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        swap(state::REQUEST, state::IDLE) || swap(state::FILLING, state::ABANDONED)
    }

    /// Lets the thread go. False if it has gone on before.
    pub(super) fn let_go(&self, parked: u32) -> bool {
        let released = with(parked, state::RELEASED);
        let whole = self.word.compare_exchange(parked, released, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        futex_wake_all(&self.word);
        whole
    }

    /// When the target's handler began: of a thread that stands still.
    pub(super) fn stopped_at(&self) -> u64 {
        self.stopped_at.load(Ordering::Relaxed)
    }

    /// The word's address.
    pub(super) fn address(&self) -> u64 {
        &raw const self.word as u64
    }
}

/// The target's step.
impl Shared {
    /// Answers a request for the calling thread, `me`: fills in the registers and stands still. False if there is none.
    pub(super) fn answer(&self, me: ThreadId, registers: Registers) -> bool {
        let request = self.word.load(Ordering::Acquire);
        if request & state::MASK != state::REQUEST || self.target.load(Ordering::Relaxed) != me.0 {
            return false;
        }
        let to = |state| with(request, state);
        let swap = |from, to| self.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        if swap(request, to(state::FILLING)).is_err() {
            return false;
        }
        self.stopped_at.store(monotonic(), Ordering::Relaxed);
        // SAFETY: in FILLING the target owns the registers.
        unsafe { self.registers.write(registers) };
        let deadline = self.deadline.load(Ordering::Relaxed);
        if swap(to(state::FILLING), to(state::PARKED)).is_err() {
            // Abandoned meanwhile: say that the registers are free again.
            self.word.store(to(state::IDLE), Ordering::Release);
            return true;
        }
        futex_wake_all(&self.word);
        while self.word.load(Ordering::Acquire) == to(state::PARKED) {
            let timed_out =
                futex_wait_until(&self.word, to(state::PARKED), deadline) == Err(Errno(libc::ETIMEDOUT));
            if timed_out && swap(to(state::PARKED), to(state::EXPIRED)).is_ok() {
                break;
            }
        }
        true
    }
}

#[cfg(all(test, explored))]
mod races;
