//! Stopping one thread of another process: by the calling thread, which has a process of its own and so needs no helper.
//!
//! A thread that was told to stop runs on until it does; from then on it is held, until its [`Traced`] ends. Whatever becomes
//! of the calling thread, the kernel lets go of whom it traces.

use super::stop::Stop;
use crate::process::ProcessId;
use crate::suspend::SuspendError;
use crate::suspend::linux::System;
use crate::sys::{self, Errno};
use crate::threads::{self, ThreadId};
use freezeframe_arch::linux::from_regset;
use freezeframe_arch::{Architecture, Registers};

const NT_PRSTATUS: i32 = 1;
/// The longest sleep between two questions whether a thread stands still, in nanoseconds.
const NAP: u64 = 1_000_000;
/// How long it is waited for at least, in nanoseconds: it can only be let go when it stands still. It runs meanwhile, or waits
/// for a processor, or is in a wait that no signal ends.
const STOPS_WITHIN: u64 = 10_000_000_000;

/// A thread that stands still.
#[derive(Debug)]
pub(crate) struct Traced {
    thread: ThreadId,
    registers: Registers,
    since_ns: u64,
}

impl Traced {
    /// Stops a thread.
    ///
    /// # Errors
    /// The kernel does not let us, the thread has ended, or it does not stop.
    ///
    /// # Signal safety
    /// Safe; it may wait for seconds.
    pub(crate) fn begin(process: ProcessId, thread: ThreadId) -> Result<Self, SuspendError> {
        let since_ns = sys::monotonic();
        let seized = sys::trace(sys::Trace::Seize, thread.0, 0);
        seized.map_err(|error| why_refused(process, thread, error))?;
        let _ = sys::trace(sys::Trace::Interrupt, thread.0, 0);
        wait_until_held(process, thread, since_ns.saturating_add(STOPS_WITHIN))?;
        let mut held = Self { thread, registers: Registers::ZERO, since_ns };
        let mut bytes = [0; 512];
        let filled =
            sys::register_set(thread.0, NT_PRSTATUS, &mut bytes).map_err(|_| SuspendError::Refused)?;
        let bytes = bytes.get_mut(..filled).ok_or(SuspendError::Refused)?;
        held.registers = from_regset(Architecture::NATIVE, bytes).map_err(|_| SuspendError::Refused)?;
        if restart::unheard_of(bytes) {
            let _ = sys::set_register_set(thread.0, NT_PRSTATUS, bytes);
        }
        Ok(held)
    }

    pub(crate) const fn registers(&self) -> &Registers {
        &self.registers
    }

    /// Lets it go, and says for how long it was held at most.
    pub(crate) fn end(self) -> u64 {
        let since_ns = self.since_ns;
        drop(self);
        sys::monotonic().saturating_sub(since_ns)
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = sys::trace(sys::Trace::Detach, self.thread.0, 0);
    }
}

fn wait_until_held(process: ProcessId, thread: ThreadId, until: u64) -> Result<(), SuspendError> {
    let keeps_its_end = process == ProcessId::Child(thread.0);
    let mut nap = 20_000u64;
    loop {
        let status = match keeps_its_end {
            true => sys::stopped_status(thread.0),
            // Its end would be told to nobody else while we trace it.
            false => sys::wait_for(thread.0, libc::WNOHANG),
        };
        match status.map(|status| status.map(Stop::of)) {
            Ok(Some(Stop::Held)) => return Ok(()),
            // It takes its signal, and stops after that.
            Ok(Some(Stop::Signal(signal))) => {
                let _ = sys::trace(sys::Trace::Continue, thread.0, signal as usize);
                continue;
            }
            Ok(Some(Stop::Ended)) => return Err(SuspendError::Gone),
            Ok(None) | Err(Errno(libc::EINTR)) => {}
            Err(_) => return Err(SuspendError::Gone),
        }
        if keeps_its_end && threads::facts_of(process, thread).state == threads::RunState::Dead {
            return Err(SuspendError::Gone);
        }
        let now = sys::monotonic();
        if now >= until {
            return Err(SuspendError::NotInTime);
        }
        sys::sleep(nap);
        nap = nap.saturating_mul(2).min(NAP);
    }
}

fn why_refused(process: ProcessId, thread: ThreadId, error: Errno) -> SuspendError {
    match error {
        Errno(libc::ESRCH) => SuspendError::Gone,
        Errno(libc::ENOSYS) => SuspendError::Forbidden,
        Errno(libc::EPERM) if threads::tracer_of(process, thread).is_some_and(|tracer| tracer != 0) => {
            SuspendError::Traced
        }
        Errno(libc::EPERM) if threads::facts_of(process, thread).state == threads::RunState::Dead => {
            SuspendError::Gone
        }
        Errno(libc::EPERM) if System::learn().yama > 0 => SuspendError::Yama,
        _ => SuspendError::Refused,
    }
}

/// A thread that runs when it is looked at may begin to wait before it stops, and a few waits would then end with `EINTR`,
/// though no signal has come. Of these the kernel is asked to begin anew, as it does by itself with all others: unless a handler
/// is about to run. The wait has only just begun, so a time limit that begins anew is hardly another one.
#[cfg(target_arch = "x86_64")]
mod restart {
    use core::mem::size_of;

    /// `struct user_regs_struct`: the places of `rax` and `orig_rax`.
    const RAX: usize = 10 * size_of::<u64>();
    const ORIG_RAX: usize = 15 * size_of::<u64>();
    const EINTR: u64 = (-(libc::EINTR as i64)) as u64;
    /// The kernel's own result for a call that is to begin anew unless a handler runs.
    const ERESTARTNOHAND: u64 = -514i64 as u64;
    /// Those whose waits the kernel does not begin anew.
    const CALLS: [libc::c_long; 19] = [
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_recvmmsg,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_rt_sigtimedwait,
        libc::SYS_io_getevents,
        libc::SYS_io_uring_enter,
    ];

    /// Has a wait that has ended for nothing begin anew. Whether there was one.
    pub(super) fn unheard_of(registers: &mut [u8]) -> bool {
        let word = |at: usize| registers.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let (Some(EINTR), Some(call)) = (word(RAX), word(ORIG_RAX)) else { return false };
        if !CALLS.iter().any(|known| *known as u64 == call) {
            return false;
        }
        if let Some(rax) = registers.get_mut(RAX..).and_then(|rest| rest.first_chunk_mut()) {
            *rax = ERESTARTNOHAND.to_le_bytes();
        }
        true
    }
}

/// arm64's kernel decides on that before a thread stops.
#[cfg(not(target_arch = "x86_64"))]
mod restart {
    pub(super) fn unheard_of(_registers: &mut [u8]) -> bool {
        false
    }
}
