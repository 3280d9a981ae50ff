//! A process that is stopped for two witnesses, and what our walk says about it.

use crate::stepper::{Images, StoppedMemory};
use freezeframe_arch::{Architecture, PacMask, Registers};
use freezeframe_unwind::rule::StackBounds;
use freezeframe_unwind::walk::{Frame, StopReason, Walk, WalkContext, Walker};
use std::collections::BTreeMap;
use std::io;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A started program. It is killed when this is dropped.
#[derive(Debug)]
pub struct Target {
    child: Child,
}

/// One thread, as our walk sees it.
#[derive(Clone, Debug)]
pub struct WalkedThread {
    /// From the innermost outward.
    pub frames: Vec<Frame>,
    /// Why there are no more.
    pub stop: StopReason,
}

impl WalkedThread {
    /// The pcs of the frames.
    pub fn pcs(&self) -> Vec<u64> {
        self.frames.iter().map(|frame| frame.address.raw()).collect()
    }
}

impl Target {
    /// Starts a program.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        Ok(Self { child: command.spawn()? })
    }

    /// The process id.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Stops all threads and waits until they stand still; false if the program has ended.
    pub fn stop(&mut self) -> bool {
        self.signal(libc::SIGSTOP);
        let patience = Instant::now() + Duration::from_secs(10);
        while Instant::now() < patience && matches!(self.child.try_wait(), Ok(None)) {
            if self.threads().iter().all(|id| self.state(*id) == Some('T')) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    /// Lets all threads go on.
    pub fn go_on(&mut self) {
        self.signal(libc::SIGCONT);
    }

    /// The walks of all threads, which must be stopped, by thread id; and the images, for names.
    ///
    /// # Errors
    /// A thread cannot be traced.
    pub fn walk(&self) -> io::Result<(BTreeMap<i32, WalkedThread>, Images)> {
        let images = Images::of(self.pid(), true)?;
        let mut context = Box::new(WalkContext::new());
        let mut memory = StoppedMemory::new(self.pid());
        let mut walked = BTreeMap::new();
        for id in self.threads() {
            let registers = registers_of(id)?;
            let bounds = StackBounds::above(registers.sp());
            let tables = images.memory();
            let mut walker =
                Walker::new(&registers, bounds, PacMask::NONE, &images.table, tables, &mut context);
            let mut frames = Vec::new();
            let stop = loop {
                match walker.next(&mut memory) {
                    Ok(frame) => frames.push(frame),
                    Err(stop) => break stop,
                }
            };
            walked.insert(id, WalkedThread { frames, stop });
        }
        Ok((walked, images))
    }

    fn threads(&self) -> Vec<i32> {
        let entries = std::fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten();
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
    }

    fn state(&self, id: i32) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{}/task/{id}/stat", self.pid())).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    fn signal(&self, signal: i32) {
        // SAFETY: our own child, which has not been waited for while it is not known to have ended.
        unsafe { libc::kill(self.pid(), signal) };
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The registers of a thread in a stopped process, which stays stopped.
fn registers_of(id: i32) -> io::Result<Registers> {
    request(libc::PTRACE_SEIZE, id, 0)?;
    let result = request(libc::PTRACE_INTERRUPT, id, 0).and_then(|()| {
        let mut status = 0;
        // SAFETY: waits for the thread that is traced; the status is ours.
        match unsafe { libc::waitpid(id, &raw mut status, libc::__WALL) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    });
    let registers = result.and_then(|()| {
        let mut bytes = [0u8; size_of::<libc::user_regs_struct>()];
        request(libc::PTRACE_GETREGS, id, bytes.as_mut_ptr() as usize)?;
        freezeframe_arch::linux::from_regset(Architecture::NATIVE, &bytes).map_err(io::Error::other)
    });
    request(libc::PTRACE_DETACH, id, 0)?;
    registers
}

fn request(what: libc::c_uint, id: libc::pid_t, data: usize) -> io::Result<()> {
    // SAFETY: the requests of this file write to `data` only in GETREGS, which is given a register set's bytes.
    match unsafe { libc::ptrace(what, id, 0usize, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
