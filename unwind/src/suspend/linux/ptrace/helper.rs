//! The helper's side: a task with this process's memory that is no thread of it, so that it may trace all of them.
//!
//! It shares the thread pointer of the thread that made it, and so may touch no thread-local storage; it makes system calls
//! and nothing else. Whatever becomes of it, the kernel lets go of every thread that it holds.

use super::job::{Job, Room, Seat, SeatState, Step};
use super::stop::Stop;
use crate::images::Range;
use crate::memory::{Memory, PipeMemory, ProcessMemory};
use crate::suspend::exempt;
use crate::sys::{self, Errno};
use crate::threads::{self, ThreadId};
use core::sync::atomic::Ordering;
use freezeframe_arch::linux::from_regset;
use freezeframe_arch::{Architecture, Registers};

/// How the helper ends.
pub(super) mod status {
    /// All was done that could be.
    pub(in super::super) const DONE: i32 = 0;
    /// The process that it was made for is gone.
    pub(in super::super) const ORPHAN: i32 = 1;
    /// It has met a fault.
    pub(in super::super) const FAULT: i32 = 2;
    /// The time was up before it could begin.
    pub(in super::super) const TOO_LATE: i32 = 3;
}

/// What a fault of the helper's own would raise. The handlers that it has copies of are the program's.
const FAULTS: [i32; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS, libc::SIGABRT];
/// How long the helper sleeps at most before it looks again, in nanoseconds.
const NAP: u64 = 1_000_000;
/// How often threads are listed at most: each time, new ones have begun meanwhile.
const ROUNDS: u32 = 16;

/// Where the helper begins. `argument` is the address of its [`Job`].
pub(super) extern "C" fn run(argument: usize) -> i32 {
    // SAFETY: the supervisor keeps the job until the helper has ended.
    let job = unsafe { &*(argument as *const Job<'_>) };
    sys::clear_at_exit(&job.alive);
    let _ = sys::process_control(libc::PR_SET_PDEATHSIG, libc::SIGKILL as usize);
    if sys::getppid() != job.process {
        return status::ORPHAN;
    }
    // SAFETY: the signal stack is the helper's alone; its handler only ends it. SIGCHLD is taken by waiting for it.
    unsafe {
        sys::alternate_stack(job.signal_stack.0, job.signal_stack.1);
        sys::handle_signals(&FAULTS, fault as *const () as usize);
        sys::handle_signals(&[libc::SIGCHLD], libc::SIG_DFL);
    }
    sys::hurry();
    let faults = FAULTS.iter().fold(0, |set, signal| set | sys::signal_set(*signal));
    sys::signal_mask(libc::SIG_UNBLOCK, faults);
    job.come_to(Step::Starting);
    while job.go.load(Ordering::Acquire) == 0 {
        if sys::monotonic() >= job.stop_until {
            return status::TOO_LATE;
        }
        let _ = sys::futex_wait_until(&job.go, 0, job.stop_until);
    }
    // SAFETY: while the helper lives, the room is its own.
    let room = unsafe { &mut *job.room.get() };
    let mut helper = Helper { job, seats: &mut *room.seats, taken: room.taken };
    helper.hold_all();
    let taken = helper.taken;
    room.taken = taken;
    job.come_to(Step::Reading);
    read_all(job, room);
    job.come_to(Step::Releasing);
    release_all(room);
    job.come_to(Step::Done);
    status::DONE
}

extern "C" fn fault(_signal: i32) {
    sys::exit_now(status::FAULT);
}

struct Helper<'a, 'b> {
    job: &'a Job<'b>,
    seats: &'a mut [Seat],
    taken: usize,
}

impl Helper<'_, '_> {
    /// Every thread is told to stop before the first of them is waited for. Then again, until no new one is found.
    fn hold_all(&mut self) {
        for _ in 0..ROUNDS {
            self.job.come_to(Step::Seizing);
            if self.seize_new() == 0 {
                return;
            }
            self.job.come_to(Step::Gathering);
            self.gather();
            if sys::monotonic() >= self.job.stop_until {
                return;
            }
        }
    }

    /// Tells every thread to stop that was not told yet, and returns how many were.
    fn seize_new(&mut self) -> usize {
        let job = self.job;
        if job.list.rewind().is_err() {
            return 0;
        }
        let (mut hint, mut seized, mut standing) = (0, 0usize, 0usize);
        let _ = threads::each(job.list, |thread| {
            if thread == job.supervisor || job.exclude.contains(&thread) || exempt::contains(thread) {
                return;
            }
            let Some(index) = self.seat_of(thread, hint) else {
                standing = standing.saturating_add(usize::from(job.everybody));
                return;
            };
            hint = index.saturating_add(1);
            if let Some(seat) = self.seats.get_mut(index)
                && seat.state == SeatState::Listed
            {
                seize(seat);
                seized = seized.saturating_add(usize::from(seat.state == SeatState::Interrupted));
            }
        });
        job.standing.store(standing, Ordering::Relaxed);
        seized
    }

    /// The seat of a thread, most likely at `hint`; a new one, if it has none and everybody is to have one.
    fn seat_of(&mut self, thread: ThreadId, hint: usize) -> Option<usize> {
        let is_it = |seat: &Seat| seat.thread == thread;
        let taken = self.seats.get(..self.taken)?;
        if taken.get(hint).is_some_and(is_it) {
            return Some(hint);
        }
        if let Some(index) = taken.iter().position(is_it) {
            return Some(index);
        }
        if !self.job.everybody {
            return None;
        }
        *self.seats.get_mut(self.taken)? = Seat::of(thread);
        self.taken = self.taken.saturating_add(1);
        self.taken.checked_sub(1)
    }

    /// Waits for one thread after the other until each that was told to stop stands still; whoever is not waited for does
    /// so meanwhile. One that keeps others waiting for long is given up: the kernel may not let it go.
    fn gather(&mut self) {
        // When a thread has stopped last; nobody is kept waiting before the first.
        let mut progress = None;
        for seat in self.seats.get_mut(..self.taken).unwrap_or(&mut []) {
            while seat.state == SeatState::Interrupted {
                ask(seat);
                let now = sys::monotonic();
                if seat.state != SeatState::Interrupted {
                    progress = progress.or(Some(now));
                    break;
                }
                let waited = progress.map_or(u64::MAX, |at| self.job.straggler_ns.saturating_add(at));
                let give_up = self.job.stop_until.min(waited);
                if now >= give_up {
                    break;
                }
                // A signal comes with each thread that stops, whichever it is.
                let nap = now.saturating_add(NAP).min(give_up);
                if sys::wait_for_signal_until(sys::signal_set(libc::SIGCHLD), nap) {
                    progress = Some(sys::monotonic());
                }
            }
        }
    }
}

fn seize(seat: &mut Seat) {
    let tid = seat.thread.0;
    // Before it can stop, so that it is not held for longer than is said.
    seat.held.start = sys::monotonic();
    let told = sys::trace(sys::Trace::Seize, tid, 0).and_then(|()| sys::trace(sys::Trace::Interrupt, tid, 0));
    seat.state = match told {
        Ok(()) => SeatState::Interrupted,
        Err(Errno(libc::ESRCH)) => SeatState::Gone,
        Err(Errno(number)) => SeatState::Refused(number),
    };
}

/// Asks the kernel what has become of a thread that was told to stop.
fn ask(seat: &mut Seat) {
    let tid = seat.thread.0;
    match sys::wait_for(tid, libc::WNOHANG).map(|status| status.map(Stop::of)) {
        Ok(None) | Err(Errno(libc::EINTR)) => {}
        Ok(Some(Stop::Held)) => seat.state = SeatState::Held,
        // It takes its signal, and stops after that.
        Ok(Some(Stop::Signal(signal))) => {
            let _ = sys::trace(sys::Trace::Continue, tid, signal as usize);
        }
        Ok(Some(Stop::Ended)) | Err(_) => seat.state = SeatState::Gone,
    }
}

/// Copies registers and stacks of all that stand still.
fn read_all(job: &Job<'_>, room: &mut Room<'_>) {
    let mut memory = HelperMemory { direct: ProcessMemory::new(), pipe: job.pipe };
    let mut used = 0usize;
    for (index, seat) in room.seats.iter_mut().take(room.taken).enumerate() {
        if seat.state != SeatState::Held {
            continue;
        }
        let Some(registers) = registers_of(seat.thread) else { continue };
        let size = if index == 0 { room.first_window } else { room.other_window };
        let free = room.arena.get_mut(used..).unwrap_or(&mut []);
        let sp = registers.sp();
        let end = if job.main_stack.contains(sp) { job.main_stack.end } else { u64::MAX };
        let mut copy = |base: u64| {
            let there = usize::try_from(end.saturating_sub(base)).unwrap_or(usize::MAX);
            let size = size.min(free.len()).min(there);
            (base, memory.read(base, free.get_mut(..size).unwrap_or(&mut [])))
        };
        let (base, filled) = match copy(sp.saturating_sub(job.beneath)) {
            (_, 0) => copy(sp),
            copied => copied,
        };
        seat.registers = registers;
        seat.base = base;
        seat.window = Range { start: used as u64, end: used.saturating_add(filled) as u64 };
        // What comes next begins at a multiple of 16.
        used = used.saturating_add(filled).checked_next_multiple_of(16).unwrap_or(usize::MAX);
        seat.state = SeatState::Read;
    }
}

fn registers_of(thread: ThreadId) -> Option<Registers> {
    const NT_PRSTATUS: i32 = 1;
    let mut bytes = [0; 512];
    let filled = sys::register_set(thread.0, NT_PRSTATUS, &mut bytes).ok()?;
    from_regset(Architecture::NATIVE, bytes.get(..filled)?).ok()
}

fn release_all(room: &mut Room<'_>) {
    for seat in room.seats.iter_mut().take(room.taken) {
        if matches!(seat.state, SeatState::Held | SeatState::Read) {
            let _ = sys::trace(sys::Trace::Detach, seat.thread.0, 0);
            seat.held.end = sys::monotonic();
        }
    }
}

/// The memory that is shared, through the kernel; through the supervisor's pipe, if there is one.
struct HelperMemory<'a> {
    direct: ProcessMemory,
    pipe: Option<&'a (sys::Fd, sys::Fd)>,
}

impl Memory for HelperMemory<'_> {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        match self.pipe {
            Some((source, sink)) => PipeMemory { source, sink }.read(address, out),
            None => self.direct.read(address, out),
        }
    }
}
