//! Threads stopped as older tools do: a process attaches to one after the other, reads each, and lets all go.

use std::io::{Error, Result};

/// How much of a stack is copied.
const WINDOW: usize = 16 * 1024;

/// How long the threads of the calling process were held, in ns, from before the first was stopped to the last's release.
/// A child does it.
pub(super) fn held(tids: &[i32]) -> Result<f64> {
    let mut pipe = [0; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe(pipe.as_mut_ptr()) } != 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: getpid has no arguments; the child makes system calls only.
    let (parent, child) = unsafe { (libc::getpid(), libc::fork()) };
    if child == 0 {
        let held = attach_to_all(parent, tids).unwrap_or(u64::MAX);
        // SAFETY: the pipe is open, and the number eight bytes long.
        unsafe {
            libc::write(pipe[1], (&raw const held).cast(), 8);
            libc::_exit(0);
        }
    }
    let mut held = u64::MAX;
    // SAFETY: the pipe is open, there is room for eight bytes, and the child is ours.
    unsafe {
        libc::close(pipe[1]);
        libc::read(pipe[0], (&raw mut held).cast(), 8);
        libc::close(pipe[0]);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    if held == u64::MAX {
        Err(Error::other("a process may not trace its parent here"))
    } else {
        Ok(held as f64)
    }
}

fn attach_to_all(pid: i32, tids: &[i32]) -> Option<u64> {
    let mut stack = [0u8; WINDOW];
    let began = now();
    for tid in tids {
        let mut status = 0;
        // SAFETY: requests about threads of our parent, which keeps them alive; the kernel writes to locals.
        unsafe {
            if libc::ptrace(libc::PTRACE_ATTACH, *tid, 0, 0) != 0 {
                return None;
            }
            libc::waitpid(*tid, &mut status, libc::__WALL);
            let mut registers: [u64; 64] = [0; 64];
            let mut set = libc::iovec { iov_base: registers.as_mut_ptr().cast(), iov_len: 512 };
            libc::ptrace(libc::PTRACE_GETREGSET, *tid, 1, &raw mut set);
            // rsp, and sp of arm64.
            let sp = registers[if cfg!(target_arch = "x86_64") { 19 } else { 31 }];
            let local = libc::iovec { iov_base: stack.as_mut_ptr().cast(), iov_len: WINDOW };
            let remote = libc::iovec { iov_base: sp as *mut _, iov_len: WINDOW };
            libc::process_vm_readv(pid, &local, 1, &remote, 1, 0);
        }
    }
    for tid in tids {
        // SAFETY: as above.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, *tid, 0, 0) };
    }
    Some(now() - began)
}

fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
