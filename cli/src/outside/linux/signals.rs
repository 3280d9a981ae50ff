//! The signals that are the program's and not this command's, as something to be read; and ending by one.

use rustix::fd::{AsFd, FromRawFd, OwnedFd};
use rustix::process::Pid;
use std::io::{Error, Result};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

/// Those that say something of this command itself: a fault of its own, its child, a broken pipe, job control, of which the
/// terminal tells the program too.
const OWN: [i32; 13] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
    libc::SIGCHLD,
    libc::SIGPIPE,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGCONT,
];

/// Signals as they come, in the whole process from when this is made on. One that is ignored stays so.
#[derive(Debug)]
pub(super) struct Signals(OwnedFd);

/// A signal that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signal {
    pub(super) number: i32,
    /// It has come to us alone, as far as is known; not from the terminal to everybody.
    pub(super) sent: bool,
}

impl Signals {
    /// All that are another program's. To be called before there are other threads, which inherit what is blocked.
    pub(super) fn of_the_program() -> Result<Self> {
        // SAFETY: a set of signals, filled before it is used.
        Self::new(unsafe {
            let mut set = MaybeUninit::uninit();
            libc::sigfillset(set.as_mut_ptr());
            for signal in OWN {
                libc::sigdelset(set.as_mut_ptr(), signal);
            }
            set.assume_init()
        })
    }

    /// Those by which a user or another program asks this command to end. To be called before there are other threads.
    pub(super) fn that_end() -> Result<Self> {
        // SAFETY: a set of signals, made empty before it is used.
        Self::new(unsafe {
            let mut set = MaybeUninit::uninit();
            libc::sigemptyset(set.as_mut_ptr());
            for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            set.assume_init()
        })
    }

    fn new(set: libc::sigset_t) -> Result<Self> {
        // SAFETY: a set of signals, and a descriptor to be made.
        let number = unsafe {
            if libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) != 0 {
                return Err(Error::last_os_error());
            }
            libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if number < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: a descriptor of ours, made just now.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(number) }))
    }

    /// The next one that has come.
    pub(super) fn next(&self) -> Option<Signal> {
        let mut told = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        // SAFETY: the kernel writes one structure, of which zeros are a valid one.
        let told = unsafe {
            let read = libc::read(self.0.as_raw_fd(), told.as_mut_ptr().cast(), size_of_val(&told));
            if read <= 0 {
                return None;
            }
            told.assume_init()
        };
        let number = told.ssi_signo as i32;
        // An alarm set before this command was executed is the program's: it would have lived on in it.
        Some(Signal { number, sent: told.ssi_code <= 0 || number == libc::SIGALRM })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sends a signal to a process that has not been waited for; a number that `rustix` has no name for, too.
pub(super) fn send(process: Pid, signal: Signal) {
    // SAFETY: a number and an id.
    unsafe { libc::kill(process.as_raw_pid(), signal.number) };
}

/// Ends this process by a signal, as another process was: without a core file of its own. Returns if that cannot be.
pub(super) fn end_by(signal: i32) {
    // SAFETY: this process's own state, which ends with it.
    unsafe {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        libc::signal(signal, libc::SIG_DFL);
        let mut set = MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
        libc::raise(signal);
    }
}
