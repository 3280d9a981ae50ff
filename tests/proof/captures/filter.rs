//! A filter of system calls on the calling thread, and on the tasks that it makes.

use super::calls::{self, Call};
use std::mem::zeroed;

const AUDIT_ARCH: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// What becomes of a call that is not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Otherwise {
    /// The process is killed with `SIGSYS`, which cannot be caught.
    Kill,
    /// The call waits while a listener hears of it: to say which it was.
    Tell,
}

/// From now on the calling thread makes only the calls that are allowed; those that are refused fail with `EPERM`. The
/// listener's descriptor, if there is one.
pub(crate) fn install(allowed: &[Call], refused: &[&str], otherwise: Otherwise) -> i32 {
    let step = |code: u32, value| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k: value };
    let load = |offset| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
    let answer = |action| step(libc::BPF_RET | libc::BPF_K, action);
    let unless = |value, skip: usize| libc::sock_filter {
        jf: skip as u8,
        ..step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value)
    };
    let mut program = vec![load(ARCHITECTURE), unless(AUDIT_ARCH, 1)];
    // Into the first rule, past the answer to another architecture.
    program.push(libc::sock_filter { k: 1, ..step(libc::BPF_JMP | libc::BPF_JA, 0) });
    program.push(answer(libc::SECCOMP_RET_KILL_PROCESS));
    for number in refused.iter().filter_map(|name| calls::number(name)) {
        let refusal = answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
        program.extend([load(NUMBER), unless(number, 1), refusal]);
    }
    for call in allowed {
        let mut left = 1 + 2 * call.arguments.len();
        program.extend([load(NUMBER), unless(call.number, left)]);
        for (position, value) in &call.arguments {
            left -= 2;
            program.extend([load(ARGUMENTS + 8 * position), unless(*value, left)]);
        }
        program.push(answer(libc::SECCOMP_RET_ALLOW));
    }
    program.push(answer(match otherwise {
        Otherwise::Kill => libc::SECCOMP_RET_KILL_PROCESS,
        Otherwise::Tell => libc::SECCOMP_RET_USER_NOTIF,
    }));
    let flags = if otherwise == Otherwise::Tell { libc::SECCOMP_FILTER_FLAG_NEW_LISTENER } else { 0 };
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the program.
    let installed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    };
    assert!(installed >= 0, "no filter of system calls: {}", std::io::Error::last_os_error());
    installed as i32
}

/// `struct seccomp_notif`.
#[repr(C)]
struct Notification {
    id: u64,
    task: u32,
    flags: u32,
    number: u32,
    architecture: u32,
    instruction: u64,
    arguments: [u64; 6],
}

/// Which call waits at a listener, if one does.
pub(crate) fn heard(listener: i32) -> Option<String> {
    const RECEIVE: libc::c_ulong = 0xc050_2100;
    let mut poll = libc::pollfd { fd: listener, events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor; a notification of the size that the number of the request holds.
    unsafe {
        if libc::poll(&mut poll, 1, 0) != 1 || poll.revents & libc::POLLIN == 0 {
            return None;
        }
        let mut told: Notification = zeroed();
        (libc::ioctl(listener, RECEIVE as _, &mut told) == 0).then(|| {
            let (number, name) = (told.number, calls::name(told.number));
            format!("system call {number}, {name}, of task {}, with {:x?}", told.task, told.arguments)
        })
    }
}
