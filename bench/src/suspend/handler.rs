//! Threads that walk themselves: a signal's handler unwinds its own stack, with the program's unwinder.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SIGNAL: i32 = libc::SIGUSR2;

/// How long the handler took, in ns; zero before it has ended.
static TOOK: AtomicU64 = AtomicU64::new(0);

extern "C" fn walk(_: i32) {
    let began = Instant::now();
    let mut frames = 0;
    // SAFETY: one handler at a time; that the unwinder may wait for a lock of the thread's own is what is wrong with it.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            frames += usize::from(!frame.ip().is_null());
            true
        });
    }
    black_box(frames);
    TOOK.store((began.elapsed().as_nanos() as u64).max(1), Ordering::Release);
}

/// The longest time that one of the threads stood in its handler, in ns.
pub(super) fn longest_held(tids: &[i32]) -> f64 {
    // SAFETY: a handler of the right form, and threads of this process.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = walk as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigaction(SIGNAL, &action, std::ptr::null_mut());
        let mut longest = 0;
        for tid in tids {
            TOOK.store(0, Ordering::Relaxed);
            libc::syscall(libc::SYS_tgkill, libc::getpid(), *tid, SIGNAL);
            let began = Instant::now();
            while TOOK.load(Ordering::Acquire) == 0 && began.elapsed() < Duration::from_secs(5) {
                std::hint::spin_loop();
            }
            longest = longest.max(TOOK.load(Ordering::Acquire));
        }
        longest as f64
    }
}
