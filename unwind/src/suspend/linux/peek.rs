//! Reading a thread that waits in the kernel, without stopping it: no signal, no `EINTR`, and an uninterruptible wait is
//! as good as any other.
//!
//! ```text
//! capturer                                           target
//! ────────                                           ──────
//! read /proc/self/task/T/schedstat, …/syscall        waits: has run for so long, so often; sp, pc
//! copy the stack at sp
//! read both again: the same?                         has not run: what was copied is one moment's
//! ```
//!
//! The kernel counts how often a thread was given a processor, so one that has run in between is found out even if it
//! waits again at the same place. Only the stack pointer and the program counter are told.

use super::handshake;
use crate::memory::Memory;
use crate::rule::KnownRegisters;
use crate::suspend::SuspendError;
use crate::sys::{self, Fd};
use crate::threads::{self, ThreadId};
use freezeframe_arch::{Architecture, Registers, RegistersArm64, RegistersX86_64};

/// The longest line of `syscall`: a number, six arguments, two registers.
const CALL_BYTES: usize = 192;
/// The longest line of `schedstat`: three numbers.
const TIMES_BYTES: usize = 80;

/// A thread that waits, as it was found.
#[derive(Debug)]
pub(crate) struct Peek {
    call: Fd,
    times: Fd,
    found: Told,
    registers: Registers,
}

fn why_untold(thread: ThreadId) -> SuspendError {
    match sys::tgkill(sys::getpid(), thread.0, 0) {
        Err(sys::Errno(libc::ESRCH)) => SuspendError::Gone,
        _ => SuspendError::Untold,
    }
}

/// What the kernel tells of a thread, as it prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    call: [u8; CALL_BYTES],
    call_bytes: usize,
    times: [u8; TIMES_BYTES],
    times_bytes: usize,
}

impl Told {
    fn call(&self) -> &[u8] {
        self.call.get(..self.call_bytes).unwrap_or(&[])
    }

    fn times(&self) -> &[u8] {
        self.times.get(..self.times_bytes).unwrap_or(&[])
    }
}

impl Peek {
    /// Looks at a thread. If it waits in a system call, the code there must be one, as `code` has it.
    ///
    /// # Errors
    /// The thread runs or has ended, or nothing is told of it: its files may not be read, the kernel does not count how
    /// often threads run, or it tells of another machine's registers (an emulator's).
    ///
    /// # Signal safety
    /// Safe: `openat`, `pread64` and a read of memory; about 1 KiB of stack.
    pub(crate) fn begin<M: Memory>(thread: ThreadId, code: &mut M) -> Result<Self, SuspendError> {
        let open = |file| threads::open(thread, file).map_err(|_| why_untold(thread));
        let (times, call) = (open(b"schedstat")?, open(b"syscall")?);
        let mut found =
            Told { call: [0; CALL_BYTES], call_bytes: 0, times: [0; TIMES_BYTES], times_bytes: 0 };
        // The times first, and last when they are read again: what has happened between is in them.
        found.times_bytes = times.read_from_start(&mut found.times).map_err(|_| SuspendError::Untold)?;
        found.call_bytes = call.read_from_start(&mut found.call).map_err(|_| SuspendError::Untold)?;
        let place = Place::parse(found.call())?;
        // It stands in our own handler, and is just about to leave it.
        if place.futex.is_some_and(|word| word == handshake::word_address()) {
            return Err(SuspendError::Running);
        }
        if !counts_runs(found.times()) || place.in_call && !follows_system_call(code, place.pc) {
            return Err(SuspendError::Untold);
        }
        Ok(Self { call, times, found, registers: registers(place) })
    }

    /// The stack pointer and the program counter. Behind the system call's instruction, if the thread is in one.
    pub(crate) fn registers(&self) -> (Registers, KnownRegisters) {
        (self.registers, KnownRegisters::stack_and_program_counter(Architecture::NATIVE))
    }

    /// Whether the thread has not run since it was looked at: what was read of it meanwhile is of one moment.
    ///
    /// # Signal safety
    /// Safe.
    pub(crate) fn still_waits(&self) -> bool {
        let mut now = self.found;
        let call = self.call.read_from_start(&mut now.call);
        let times = self.times.read_from_start(&mut now.times);
        (call, times) == (Ok(self.found.call_bytes), Ok(self.found.times_bytes)) && now == self.found
    }
}

/// Where a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// In a system call; else in a page fault, or stopped.
    in_call: bool,
    /// The word, if the call waits for a futex.
    futex: Option<u64>,
    sp: u64,
    pc: u64,
}

impl Place {
    /// `number six arguments sp pc`, or `-1 sp pc` outside system calls, or `running`.
    fn parse(text: &[u8]) -> Result<Self, SuspendError> {
        let mut fields = text.trim_ascii_end().split(|byte| *byte == b' ');
        let number = fields.next().unwrap_or(&[]);
        if number == b"running" {
            return Err(SuspendError::Running);
        }
        let in_call = number != b"-1";
        let mut futex = None;
        if in_call {
            let number = sys::decimal(number).ok_or(SuspendError::Untold)?;
            let first = fields.next().and_then(sys::hexadecimal);
            futex = first.filter(|_| number == libc::SYS_futex as u64);
        }
        let mut fields = fields.skip(if in_call { 5 } else { 0 });
        let mut address = || fields.next().and_then(sys::hexadecimal).filter(|address| *address != 0);
        match (address(), address()) {
            (Some(sp), Some(pc)) => Ok(Self { in_call, futex, sp, pc }),
            _ => Err(SuspendError::Untold),
        }
    }
}

/// `run time, wait time, runs`. A kernel that does not count prints zeros.
fn counts_runs(times: &[u8]) -> bool {
    let mut fields = times.trim_ascii_end().split(|byte| *byte == b' ');
    fields.nth(2).and_then(sys::decimal).is_some_and(|runs| runs != 0)
}

/// Whether the instruction before `pc` calls the kernel. Under an emulator `pc` is none of the program's.
fn follows_system_call<M: Memory>(code: &mut M, pc: u64) -> bool {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    const INT_80: [u8; 2] = [0xcd, 0x80];
    const SVC: [u8; 4] = [0x01, 0, 0, 0xd4];
    let mut before = [0; 4];
    let start = pc.wrapping_sub(before.len() as u64);
    code.read(start, &mut before) == before.len()
        && match Architecture::NATIVE {
            Architecture::X86_64 => before.ends_with(&SYSCALL) || before.ends_with(&INT_80),
            Architecture::Arm64 => before == SVC,
        }
}

fn registers(place: Place) -> Registers {
    let Place { sp, pc, .. } = place;
    match Architecture::NATIVE {
        Architecture::X86_64 => Registers::X86_64(RegistersX86_64 { rsp: sp, rip: pc, ..Default::default() }),
        Architecture::Arm64 => Registers::Arm64(RegistersArm64 { sp, pc, ..Default::default() }),
    }
}

#[cfg(test)]
mod tests;
