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
//! waits again at the same place. Only the stack pointer and the program counter are told, and on x86_64 the registers that
//! hold the system call's arguments: glibc's `vfork` waits with its return address in one of them and nowhere else.

use super::handshake;
use crate::memory::Memory;
use crate::process::ProcessId;
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
    known: KnownRegisters,
}

fn why_untold(process: ProcessId, thread: ThreadId) -> SuspendError {
    if threads::is_alive_in(process, thread) { SuspendError::Untold } else { SuspendError::Gone }
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
    /// Looks at a thread of a process. If it waits in a system call, the code there must be one, as `code` has it.
    ///
    /// # Errors
    /// The thread runs or has ended, or nothing is told of it: its files may not be read, the kernel does not count how
    /// often threads run, or it tells of another machine's registers (an emulator's).
    ///
    /// # Signal safety
    /// Safe: `openat`, `pread64` and a read of memory; about 1 KiB of stack.
    pub(crate) fn begin<M: Memory>(
        process: ProcessId,
        thread: ThreadId,
        code: &mut M,
    ) -> Result<Self, SuspendError> {
        let open = |file| threads::open(process, thread, file).map_err(|_| why_untold(process, thread));
        let (times, call) = (open(b"schedstat")?, open(b"syscall")?);
        let mut found =
            Told { call: [0; CALL_BYTES], call_bytes: 0, times: [0; TIMES_BYTES], times_bytes: 0 };
        // The times first, and last when they are read again: what has happened between is in them.
        found.times_bytes = times.read_from_start(&mut found.times).map_err(|_| SuspendError::Untold)?;
        found.call_bytes = call.read_from_start(&mut found.call).map_err(|_| SuspendError::Untold)?;
        let place = Place::parse(found.call())?;
        // It stands in our own handler, and is just about to leave it.
        if process == ProcessId::Own && place.futex.is_some_and(|word| word == handshake::word_address()) {
            return Err(SuspendError::Running);
        }
        let instruction = if place.arguments.is_some() { call_before(code, place.pc) } else { None };
        if !counts_runs(found.times()) || place.arguments.is_some() && instruction.is_none() {
            return Err(SuspendError::Untold);
        }
        let (registers, known) = registers(place, instruction);
        Ok(Self { call, times, found, registers, known })
    }

    /// What is told: the stack pointer, the program counter, behind the system call's instruction if the thread is in
    /// one, and the arguments where they are in the registers that the instruction takes them from.
    pub(crate) const fn registers(&self) -> (Registers, KnownRegisters) {
        (self.registers, self.known)
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
    /// Those of the system call; none in a page fault, or stopped.
    arguments: Option<[u64; 6]>,
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
        let (mut arguments, mut futex) = (None, None);
        if number != b"-1" {
            let number = sys::decimal(number).ok_or(SuspendError::Untold)?;
            let mut told = [0; 6];
            for argument in &mut told {
                *argument = fields.next().and_then(sys::hexadecimal).ok_or(SuspendError::Untold)?;
            }
            futex = told.first().copied().filter(|_| number == libc::SYS_futex as u64);
            arguments = Some(told);
        }
        let mut address = || fields.next().and_then(sys::hexadecimal).filter(|address| *address != 0);
        match (address(), address()) {
            (Some(sp), Some(pc)) => Ok(Self { arguments, futex, sp, pc }),
            _ => Err(SuspendError::Untold),
        }
    }
}

/// `run time, wait time, runs`. A kernel that does not count prints zeros.
fn counts_runs(times: &[u8]) -> bool {
    let mut fields = times.trim_ascii_end().split(|byte| *byte == b' ');
    fields.nth(2).and_then(sys::decimal).is_some_and(|runs| runs != 0)
}

/// An instruction that calls the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Syscall,
    /// Of a 32-bit program: its arguments are in other registers.
    Int80,
    Svc,
}

/// The instruction before `pc`, if it calls the kernel. Under an emulator `pc` is none of the program's.
fn call_before<M: Memory>(code: &mut M, pc: u64) -> Option<Call> {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    const INT_80: [u8; 2] = [0xcd, 0x80];
    const SVC: [u8; 4] = [0x01, 0, 0, 0xd4];
    let mut before = [0; 4];
    let start = pc.wrapping_sub(before.len() as u64);
    if code.read(start, &mut before) != before.len() {
        return None;
    }
    match Architecture::NATIVE {
        Architecture::X86_64 if before.ends_with(&SYSCALL) => Some(Call::Syscall),
        Architecture::X86_64 if before.ends_with(&INT_80) => Some(Call::Int80),
        Architecture::Arm64 if before == SVC => Some(Call::Svc),
        _ => None,
    }
}

fn registers(place: Place, instruction: Option<Call>) -> (Registers, KnownRegisters) {
    let Place { sp, pc, .. } = place;
    let known = KnownRegisters::stack_and_program_counter(Architecture::NATIVE);
    match Architecture::NATIVE {
        Architecture::X86_64 => {
            let two = RegistersX86_64 { rsp: sp, rip: pc, ..Default::default() };
            match (place.arguments, instruction) {
                (Some([rdi, rsi, rdx, r10, r8, r9]), Some(Call::Syscall)) => {
                    let registers = RegistersX86_64 { rdi, rsi, rdx, r10, r8, r9, ..two };
                    // Their DWARF numbers.
                    let known = known.with(5).with(4).with(1).with(10).with(8).with(9);
                    (Registers::X86_64(registers), known)
                }
                _ => (Registers::X86_64(two), known),
            }
        }
        Architecture::Arm64 => (Registers::Arm64(RegistersArm64 { sp, pc, ..Default::default() }), known),
    }
}

#[cfg(test)]
mod tests;
