//! Threads to capture. They too make only listed calls, and allocate nothing: our signal's handler runs on them.

use super::filter::{self, Otherwise};
use super::{calls, child};
use freezeframe_unwind::threads::{ThreadId, current};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;

/// Who is captured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Targets {
    /// Waits in a futex.
    pub(crate) waits: ThreadId,
    /// Runs.
    pub(crate) spins: ThreadId,
    /// Waits, and takes no signal.
    pub(crate) is_deaf: ThreadId,
}

/// Starts them, for good. With a filter, if that is how this process is watched.
pub(crate) fn start(filtered: Option<Otherwise>) -> Targets {
    let begin = |be: fn(), deaf: bool| {
        let (send, receive) = mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let allowed = calls::listed(&["target"]);
            send.send(current()).unwrap();
            drop(send);
            // The other side has taken it, and frees what the channel was.
            child::wait_for_all_to_be_ready();
            if deaf {
                take_no_signal();
            }
            if let Some(otherwise) = filtered {
                child::listen(filter::install(&allowed, &[], otherwise));
            }
            std::mem::forget(allowed);
            child::one_more_watched();
            be();
        });
        receive.recv().unwrap()
    };
    Targets { waits: begin(wait, false), spins: begin(spin, false), is_deaf: begin(wait, true) }
}

fn wait() {
    static NOBODY: AtomicU32 = AtomicU32::new(0);
    loop {
        // SAFETY: the word lives for ever.
        unsafe {
            let forever = std::ptr::null::<libc::timespec>();
            libc::syscall(libc::SYS_futex, NOBODY.as_ptr(), libc::FUTEX_WAIT, 0, forever);
        }
    }
}

fn spin() {
    static TURNS: AtomicU32 = AtomicU32::new(0);
    loop {
        TURNS.fetch_add(1, Ordering::Relaxed);
    }
}

fn take_no_signal() {
    // SAFETY: a set of our own.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}
