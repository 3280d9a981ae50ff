//! Holding all threads at one time: by a helper that traces them.
//!
//! ```text
//! supervisor (a thread)            helper (a task with the same memory)       the other threads
//! ────────────────────             ─────────────────────────────────          ─────────────────
//! clone ─────────────────────────▶ its own faults end it; it dies with us
//! may it trace us? (Yama)
//! go ────────────────────────────▶ list; SEIZE, INTERRUPT every one ────────▶ stop, one by one
//! waits, to a deadline             wait until all stand still, list again …
//!                                  registers and stacks of all                stand still together
//!                                  DETACH all ──────────────────────────────▶ go on
//! reaps it                    ◀─── ends
//!    … or kills it at the deadline: the kernel lets go of all ──────────────▶ go on
//! ```
//!
//! No signal is sent, nothing of a thread's stack is used, and a thread that blocks every signal stops like any other. The
//! helper is never told to take the threads with it when it dies (`PTRACE_O_EXITKILL`).

mod helper;
mod job;
mod outside;
mod stop;
#[cfg(test)]
pub(super) mod tests;

pub(crate) use job::{Room, Seat, SeatState, Step};
pub(crate) use outside::Traced;

use crate::images::Range;
use crate::memory::{Memory, ProcessMemory};
use crate::sys::{self, Errno};
use crate::threads::{self, ThreadId};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};
use helper::status;
use job::Job;

/// The stack that the helper runs on, and above it the one for its fault handler.
const STACK: usize = 64 * 1024;
const SIGNAL_STACK: usize = 16 * 1024;
/// How long a killed helper may take to be gone, in nanoseconds. It can only wait for the kernel then.
const GONE_WITHIN: u64 = 1_000_000_000;

/// The lowest address of the helper's stack, or zero. There is one helper at a time.
static STACK_START: AtomicUsize = AtomicUsize::new(0);
/// A helper could not be reaped: it may come back, and its stack is lost.
static LOST: AtomicBool = AtomicBool::new(false);
/// What to do about Yama's registration of tracers; see [`Registration`].
static REGISTRATION: AtomicI32 = AtomicI32::new(Registration::LEAVE);

/// Whether the helper registers as this process's tracer (`PR_SET_PTRACER`), which Yama demands in its restricted mode of
/// a tracer that is no ancestor. The kernel has one place for that, and does not tell who is in it: the registration of
/// another crash reporter gets lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Registration {
    /// It does not. Where that is needed, threads are stopped one by one.
    #[default]
    Leave,
    /// It does.
    Take,
    /// It does, and this process is registered again after it: the one that was there before; -1 is any process.
    TakeAndPutBack(i32),
}

impl Registration {
    const LEAVE: i32 = 0;
    const TAKE: i32 = i32::MIN;

    const fn code(self) -> i32 {
        match self {
            Self::Leave => Self::LEAVE,
            Self::Take => Self::TAKE,
            Self::TakeAndPutBack(pid) => pid,
        }
    }
}

/// Why the helper did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HelperError {
    /// The kernel did not make it: the error number.
    NotMade(i32),
    /// It has died, in this step.
    Died(Step),
    /// It took too long and was killed, in this step; or it came too late to begin.
    Late(Step),
}

/// What the helper has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Helped {
    /// Whether it came to its end. If not, seats that were read are right all the same.
    pub(crate) end: Result<(), HelperError>,
    /// How many threads were found that had no seat left.
    pub(crate) standing: usize,
}

/// Whom to hold, and how long to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// Threads that must not be stopped, beside the calling one and those that are exempt.
    pub(crate) exclude: &'a [ThreadId],
    /// Whether threads that have no seat are held, too.
    pub(crate) everybody: bool,
    /// Where the main thread's stack may be.
    pub(crate) main_stack: Range,
    /// From how many bytes beneath the stack pointer on stacks are copied.
    pub(crate) beneath: u64,
    /// How long to wait until all stand still, in nanoseconds.
    pub(crate) stop_within_ns: u64,
    /// How long one thread may keep all the others waiting, in nanoseconds, before it is given up.
    pub(crate) straggler_ns: u64,
    /// After how long all are let go, whatever happens, counted from then on.
    pub(crate) hold_at_most_ns: u64,
}

/// Makes the helper's stack, and notes what is to be done about Yama's registration.
pub(crate) fn prepare(registration: Registration) -> Result<(), Errno> {
    REGISTRATION.store(registration.code(), Ordering::Relaxed);
    if STACK_START.load(Ordering::Acquire) == 0 {
        let stack = sys::map_guarded_stack(STACK.saturating_add(SIGNAL_STACK))?;
        // The loser's stack stays behind: once in a process's life, and only if two threads begin at the same time.
        let _ = STACK_START.compare_exchange(0, stack, Ordering::AcqRel, Ordering::Relaxed);
    }
    Ok(())
}

/// Whether the helper registers as a tracer.
pub(crate) fn registers_as_tracer() -> bool {
    REGISTRATION.load(Ordering::Relaxed) != Registration::LEAVE
}

/// Holds all threads at one time but the calling one, copies their registers and stacks into `room`, and lets them go.
/// For the one thread that holds the session.
///
/// # Signal safety
/// Safe; it waits for no longer than the request says, and a second more for a helper that the kernel keeps.
pub(crate) fn hold_together(request: &Request<'_>, room: Room<'_>) -> (Helped, usize) {
    let taken = room.taken;
    let not_made = |number| (Helped { end: Err(HelperError::NotMade(number)), standing: 0 }, taken);
    let stack = STACK_START.load(Ordering::Acquire);
    if stack == 0 || LOST.load(Ordering::Relaxed) {
        return not_made(libc::EAGAIN);
    }
    let list = match threads::open_list() {
        Ok(list) => list,
        Err(error) => return not_made(error.0),
    };
    let pipe = if reads_directly() { None } else { sys::pipe().ok() };
    let stack_top = stack.saturating_add(STACK);
    let begun = sys::monotonic();
    let stop_until = begun.saturating_add(request.stop_within_ns);
    let job = Job {
        process: sys::getpid(),
        supervisor: threads::current(),
        exclude: request.exclude,
        everybody: request.everybody,
        list: &list,
        pipe: pipe.as_ref(),
        main_stack: request.main_stack,
        beneath: request.beneath,
        stop_until,
        straggler_ns: request.straggler_ns,
        signal_stack: (stack_top, SIGNAL_STACK),
        room: UnsafeCell::new(room),
        standing: AtomicUsize::new(0),
        go: AtomicU32::new(0),
        alive: AtomicU32::new(1),
        step: AtomicU32::new(Step::Starting as u32),
    };
    let end = run(&job, stack_top, stop_until.saturating_add(request.hold_at_most_ns));
    let standing = job.standing.load(Ordering::Relaxed);
    let room = job.room.into_inner();
    let now = sys::monotonic();
    // Those that the helper could not let go itself: the kernel has.
    for seat in room.seats.iter_mut().filter(|seat| seat.held.start != 0 && seat.held.end == 0) {
        seat.held.end = now;
    }
    (Helped { end, standing }, room.taken)
}

/// Runs the helper to its end, or to the deadline.
fn run(job: &Job<'_>, stack_top: usize, deadline: u64) -> Result<(), HelperError> {
    // Neither a thread, nor with handlers that are ours, nor to be traced itself by who traces us; and nobody is told
    // when it ends.
    let flags = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_UNTRACED;
    // It begins with every signal blocked: their handlers are the program's.
    let mask = sys::signal_mask(libc::SIG_SETMASK, u64::MAX);
    // SAFETY: the stack is the one helper's, which touches no thread-local storage; the job outlives it, since this
    // function does not return before it has ended.
    let made = unsafe { sys::clone_task(flags, stack_top, helper::run, job as *const Job<'_> as usize) };
    sys::signal_mask(libc::SIG_SETMASK, mask);
    let helper = made.map_err(|error| HelperError::NotMade(error.0))?;
    let registration = REGISTRATION.load(Ordering::Relaxed);
    if registration != Registration::LEAVE {
        let _ = sys::process_control(libc::PR_SET_PTRACER, helper as usize);
    }
    job.go.store(1, Ordering::Release);
    sys::futex_wake_all(&job.go);
    while job.alive.load(Ordering::Acquire) != 0 && sys::monotonic() < deadline {
        sys::shared_futex_wait_until(&job.alive, 1, deadline);
    }
    let late = job.alive.load(Ordering::Acquire) != 0;
    if late {
        let _ = sys::kill(helper, libc::SIGKILL);
    }
    let status = reap(helper);
    if registration != Registration::LEAVE && registration != Registration::TAKE {
        let _ = sys::process_control(libc::PR_SET_PTRACER, registration as usize);
    }
    match status {
        Some(status) if status == status::DONE << 8 => Ok(()),
        Some(status) if status == status::TOO_LATE << 8 => Err(HelperError::Late(job.step())),
        _ if late => Err(HelperError::Late(job.step())),
        _ => Err(HelperError::Died(job.step())),
    }
}

/// Waits until the helper has ended. None if somebody else has taken its status, or the kernel keeps it.
fn reap(helper: i32) -> Option<i32> {
    let begun = sys::monotonic();
    let mut nap = 10_000u64;
    loop {
        match sys::wait_for(helper, libc::WNOHANG) {
            Ok(Some(status)) => return Some(status),
            Err(Errno(libc::EINTR)) => {}
            Err(_) => return None,
            Ok(None) => {}
        }
        let now = sys::monotonic();
        if now.saturating_sub(begun) > GONE_WITHIN {
            LOST.store(true, Ordering::Relaxed);
            return None;
        }
        sys::sleep_until(now.saturating_add(nap));
        nap = nap.saturating_mul(2).min(1_000_000);
    }
}

/// Whether the kernel copies memory without a pipe.
fn reads_directly() -> bool {
    let mut memory = ProcessMemory::new();
    let byte = 0u8;
    memory.read(&raw const byte as u64, &mut [0]);
    memory.is_direct()
}
