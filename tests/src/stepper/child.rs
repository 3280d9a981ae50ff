//! A program under control: stopped before its first instruction, then stepped.
//!
//! The thread that starts a program is the only one that can control it (`ptrace(2)`).

use super::memory::read_process;
use freezeframe_arch::{Architecture, Registers, RegistersX86_64};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// `AT_ENTRY` of `getauxval(3)`.
const AT_ENTRY: u64 = 9;

/// A traced child process of one thread. It is killed when this is dropped, and when its tracer dies.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    alive: bool,
}

/// What a program did when it was let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It came to the next instruction, or to a breakpoint.
    Stepped,
    /// It is about to receive a signal; nothing has happened yet.
    Signal(i32),
    /// It ended with this exit status.
    Exited(i32),
    /// A signal ended it.
    Killed(i32),
}

impl Child {
    /// Starts a program and stops it before its first instruction, which is the dynamic loader's if it has one.
    ///
    /// # Errors
    /// The program cannot be started or traced.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let trace_me = || request(libc::PTRACE_TRACEME, 0, 0, 0);
        // SAFETY: one system call, which is all that happens between fork and exec.
        unsafe { command.pre_exec(trace_me) };
        let mut child = Self { pid: command.spawn()?.id() as libc::pid_t, alive: true };
        match child.wait()? {
            Stop::Stepped => {}
            stop => return Err(io::Error::other(format!("stopped as {stop:?}"))),
        }
        request(libc::PTRACE_SETOPTIONS, child.pid, 0, libc::PTRACE_O_EXITKILL as usize)?;
        Ok(child)
    }

    /// The process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Lets the program run to its own entry point, `_start`: past the dynamic loader.
    ///
    /// # Errors
    /// It does not get there.
    pub fn run_to_entry(&mut self) -> io::Result<()> {
        let auxv = std::fs::read(format!("/proc/{}/auxv", self.pid))?;
        let words: Vec<u64> =
            auxv.as_chunks().0.iter().map(|word: &[u8; 8]| u64::from_le_bytes(*word)).collect();
        let entry = words.chunks(2).find(|pair| pair[0] == AT_ENTRY).ok_or(io::ErrorKind::NotFound)?[1];
        let mut word = [0; 8];
        if read_process(self.pid, entry, &mut word) != word.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let original = u64::from_le_bytes(word);
        let int3 = original & !0xff | 0xcc;
        request(libc::PTRACE_POKETEXT, self.pid, entry as usize, int3 as usize)?;
        request(libc::PTRACE_CONT, self.pid, 0, 0)?;
        match self.wait()? {
            Stop::Stepped => {}
            stop => return Err(io::Error::other(format!("{stop:?} before the entry point"))),
        }
        request(libc::PTRACE_POKETEXT, self.pid, entry as usize, original as usize)?;
        // SAFETY: plain integers.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        request(libc::PTRACE_GETREGS, self.pid, 0, &raw mut registers as usize)?;
        registers.rip = entry;
        request(libc::PTRACE_SETREGS, self.pid, 0, &raw mut registers as usize)
    }

    /// The registers.
    ///
    /// # Errors
    /// The program is gone.
    pub fn registers(&self) -> io::Result<RegistersX86_64> {
        let mut bytes = [0u8; size_of::<libc::user_regs_struct>()];
        request(libc::PTRACE_GETREGS, self.pid, 0, bytes.as_mut_ptr() as usize)?;
        match freezeframe_arch::linux::from_regset(Architecture::X86_64, &bytes) {
            Ok(Registers::X86_64(registers)) => Ok(registers),
            other => Err(io::Error::other(format!("{other:?}"))),
        }
    }

    /// One instruction, or the delivery of a signal to its handler, if `signal` is not zero and has one.
    ///
    /// # Errors
    /// The program is gone.
    pub fn step(&mut self, signal: i32) -> io::Result<Stop> {
        request(libc::PTRACE_SINGLESTEP, self.pid, 0, signal as usize)?;
        self.wait()
    }

    /// Whether the program has a handler for `signal`.
    pub fn handles(&self, signal: i32) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        caught >> (signal - 1) & 1 == 1
    }

    fn wait(&mut self) -> io::Result<Stop> {
        let mut status = 0;
        loop {
            // SAFETY: waits for our own child; the status is ours.
            let result = unsafe { libc::waitpid(self.pid, &raw mut status, libc::__WALL) };
            match result {
                -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                -1 => return Err(io::Error::last_os_error()),
                _ => break,
            }
        }
        self.alive = libc::WIFSTOPPED(status);
        Ok(match () {
            () if libc::WIFEXITED(status) => Stop::Exited(libc::WEXITSTATUS(status)),
            () if libc::WIFSIGNALED(status) => Stop::Killed(libc::WTERMSIG(status)),
            () if libc::WSTOPSIG(status) == libc::SIGTRAP => Stop::Stepped,
            () => Stop::Signal(libc::WSTOPSIG(status)),
        })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.alive {
            // SAFETY: our own child, which has not been waited for: the id is still its.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
            while self.alive && self.wait().is_ok() {}
        }
    }
}

fn request(what: libc::c_uint, pid: libc::pid_t, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: the requests of this file write to `data` only in GETREGS, which is given a register set's bytes.
    match unsafe { libc::ptrace(what, pid, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
