//! Which system calls go on when their thread was stopped for a moment, as if nothing had been; others are cut short, and
//! most programs take that for the end of what they waited for.
//!
//! Calls that are not named here are taken to be cut short. After signal(7), and as
//! `tests/interrupted.rs` shows.

use crate::suspend::Way;
use crate::sys::{self, Timeout};
use crate::threads::SystemCall;

/// What becomes of calls that a stop has left without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// They begin again, after a handler too.
    Restarted,
    /// They go on for the time that is left, unless a handler has run.
    Resumed,
    /// As those that are restarted, unless a socket ends them after a time of its own.
    Timed(Timeout),
}

const fn after(call: &SystemCall) -> Option<After> {
    const FUTEX_COMMAND: u64 = 0x7f;
    let [_, operation, _, time, ..] = call.arguments;
    Some(match call.number as libc::c_long {
        libc::SYS_wait4 | libc::SYS_waitid | libc::SYS_flock | libc::SYS_fcntl | libc::SYS_openat => {
            After::Restarted
        }
        libc::SYS_futex => match (operation & FUTEX_COMMAND) as i32 {
            libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET if time == 0 => After::Restarted,
            libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => After::Resumed,
            libc::FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => After::Restarted,
            _ => return None,
        },
        libc::SYS_nanosleep
        | libc::SYS_clock_nanosleep
        | libc::SYS_restart_syscall
        | libc::SYS_ppoll
        | libc::SYS_pselect6
        | libc::SYS_rt_sigsuspend => After::Resumed,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll | libc::SYS_select | libc::SYS_pause => After::Resumed,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => After::Restarted,
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_accept
        | libc::SYS_accept4 => After::Timed(Timeout::Receive),
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendto | libc::SYS_sendmsg => {
            After::Timed(Timeout::Send)
        }
        _ => return None,
    })
}

const FUTEX_LOCK_PI2: i32 = 13;

/// Whether a call of this process goes on after its thread was stopped in that way.
///
/// # Signal safety
/// Safe: `getsockopt`, at most.
pub(crate) fn goes_on(call: &SystemCall, way: Way) -> bool {
    match (after(call), way) {
        (_, Way::Peek) | (Some(After::Restarted), _) | (Some(After::Resumed), Way::Ptrace) => true,
        (Some(After::Timed(timeout)), _) => {
            let [descriptor, ..] = call.arguments;
            !sys::times_out(descriptor as i32, timeout)
        }
        (Some(After::Resumed), Way::Signal) | (None, _) => false,
    }
}

/// Whether a call of another process goes on after its thread was stopped by a tracer. Of its sockets nothing is known.
///
/// # Signal safety
/// Safe.
pub(crate) const fn goes_on_elsewhere(call: &SystemCall) -> bool {
    matches!(after(call), Some(After::Restarted | After::Resumed))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    fn call(number: libc::c_long, arguments: [u64; 6]) -> SystemCall {
        SystemCall { number: number as u32, arguments }
    }

    fn by(call: SystemCall) -> [bool; 3] {
        [Way::Peek, Way::Signal, Way::Ptrace].map(|way| goes_on(&call, way))
    }

    #[test]
    fn a_futex_goes_on_unless_a_handler_runs_in_the_time_that_it_may_take() {
        let futex = |operation: i32, time| by(call(libc::SYS_futex, [8, operation as u64, 0, time, 0, 0]));
        let private = libc::FUTEX_PRIVATE_FLAG;
        assert_eq!(futex(libc::FUTEX_WAIT | private, 0), [true, true, true]);
        assert_eq!(futex(libc::FUTEX_WAIT | private, 4096), [true, false, true]);
        assert_eq!(futex(libc::FUTEX_WAIT_BITSET | libc::FUTEX_CLOCK_REALTIME, 4096), [true, false, true]);
        assert_eq!(futex(libc::FUTEX_LOCK_PI | private, 4096), [true, true, true]);
        assert_eq!(futex(libc::FUTEX_WAIT_REQUEUE_PI, 0), [true, false, false], "not known");
    }

    #[test]
    fn a_socket_with_a_time_of_its_own_is_left_alone() {
        let (plain, timed) = UnixStream::pair().unwrap();
        timed.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let on = |number, socket: &UnixStream| by(call(number, [socket.as_raw_fd() as u64, 0, 0, 0, 0, 0]));
        assert_eq!(on(libc::SYS_recvfrom, &plain), [true, true, true]);
        assert_eq!(on(libc::SYS_read, &timed), [true, false, false]);
        assert_eq!(on(libc::SYS_write, &timed), [true, true, true], "it has none for sending");
        timed.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
        assert_eq!(on(libc::SYS_sendmsg, &timed), [true, false, false]);
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(by(call(libc::SYS_read, [file.as_raw_fd() as u64, 0, 0, 0, 0, 0])), [true, true, true]);
    }

    #[test]
    fn what_is_not_known_is_left_alone() {
        for number in [libc::SYS_epoll_pwait, libc::SYS_semtimedop, libc::SYS_rt_sigtimedwait, 100_000] {
            assert_eq!(by(call(number, [0; 6])), [true, false, false], "{number}");
            assert!(!goes_on_elsewhere(&call(number, [0; 6])));
        }
        assert_eq!(by(call(libc::SYS_ppoll, [0; 6])), [true, false, true]);
        assert!(goes_on_elsewhere(&call(libc::SYS_ppoll, [0; 6])));
        assert!(!goes_on_elsewhere(&call(libc::SYS_read, [0; 6])), "perhaps of a socket");
    }
}
