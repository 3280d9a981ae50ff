//! The signals that would end this command, as something to be read; and ending by one.

use rustix::fd::{AsFd, FromRawFd, OwnedFd};
use std::io::{Error, Result};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

/// Those that a user or another program stops a program by, or tells it something.
const SIGNALS: [i32; 6] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// Signals as they come, in the whole process from when this is made on. One that is ignored stays so.
#[derive(Debug)]
pub(super) struct Signals(OwnedFd);

/// A signal that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signal {
    pub(super) number: i32,
    /// A process has sent it to us alone, as far as is known; not the terminal to everybody.
    pub(super) sent: bool,
}

impl Signals {
    /// To be called before there are other threads, which inherit what is blocked.
    pub(super) fn new() -> Result<Self> {
        // SAFETY: sets of signals, made empty before they are used.
        let number = unsafe {
            let mut set = MaybeUninit::uninit();
            libc::sigemptyset(set.as_mut_ptr());
            for signal in SIGNALS {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            let set = set.assume_init();
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
        Some(Signal { number: told.ssi_signo as i32, sent: told.ssi_code <= 0 })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
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
