//! The target's side: the signal handler, and its place among the program's handlers.

use super::handshake::shared;
use crate::sys::{self, Errno, KernelSigaction};
use crate::threads::ThreadId;
use core::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use freezeframe_arch::Architecture;
use freezeframe_arch::linux::{from_ucontext, ucontext_bytes};

const SA_RESTORER: u64 = 0x0400_0000;
/// How much the kernel pushes for a signal (Linux 5.14, and arm64 before).
const AT_MINSIGSTKSZ: u64 = 51;

/// Our signal, and the action that was there before ours. Written once, before the handler is installed.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static EARLIER_HANDLER: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static EARLIER_FLAGS: AtomicU64 = AtomicU64::new(0);

/// How many bytes of a stack a signal takes: what the kernel pushes, and our handler.
static STACK_BYTES: AtomicUsize = AtomicUsize::new(0);
/// What the handler takes, and the part below the stack pointer that functions without a frame may use.
const HANDLER_BYTES: usize = 2048 + 128;
/// Where the kernel does not say how much it pushes: with all of AVX-512; SVE takes less.
const USUAL_FRAME: usize = 4096;

/// How many bytes of its stack a thread must have left to be stopped by a signal, unless it has an alternate stack.
pub(super) fn stack_bytes() -> usize {
    STACK_BYTES.load(Ordering::Relaxed)
}

/// Whose handler the signal has now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handler {
    Ours,
    Other,
}

/// The signal of the handshake.
pub(super) fn number() -> i32 {
    SIGNAL.load(Ordering::Relaxed)
}

/// Puts our handler in the place of the one that `signal` has, which is called for signals that are not ours. It is
/// never taken away again: a signal that arrives late would meet the default action.
pub(super) fn install(signal: i32) -> Result<(), Errno> {
    // SAFETY: nothing is replaced.
    let earlier = unsafe { sys::signal_action(signal, None) }?;
    EARLIER_HANDLER.store(earlier.handler, Ordering::Relaxed);
    EARLIER_FLAGS.store(earlier.flags, Ordering::Relaxed);
    SIGNAL.store(signal, Ordering::Release);
    let frame = sys::auxiliary(AT_MINSIGSTKSZ).map_or(USUAL_FRAME, |bytes| bytes as usize);
    STACK_BYTES.store(frame.saturating_add(HANDLER_BYTES), Ordering::Relaxed);
    let flags = (libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK) as u32 as u64;
    let ours = KernelSigaction {
        handler: handler as *const () as usize,
        flags: flags | SA_RESTORER,
        restorer: freezeframe_asm::signal_return(),
        // Nothing may interrupt a thread that stands still.
        mask: u64::MAX,
    };
    // SAFETY: the handler is written for any point of any thread.
    unsafe { sys::signal_action(signal, Some(&ours)) }.map(drop)
}

/// Asks the kernel whose handler would run.
pub(super) fn current_handler() -> Handler {
    // SAFETY: nothing is replaced.
    match unsafe { sys::signal_action(number(), None) } {
        Ok(action) if action.handler == handler as *const () as usize => Handler::Ours,
        _ => Handler::Other,
    }
}

/// A request for this thread is answered whoever sent the signal: a pending one swallows ours, and where the kernel has
/// no queue entry left (`RLIMIT_SIGPENDING`) ours arrives without its sender. One that is not surely ours goes on to the
/// earlier handler.
///
/// # Signal safety
/// Touches nothing of the thread's: no TLS, no `errno` (system calls are raw), about 500 bytes of its stack.
extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let answered = shared().is_some_and(|shared| {
        // SAFETY: the third argument of such a handler is a ucontext of at least this size.
        let bytes = unsafe {
            core::slice::from_raw_parts(context.cast::<u8>(), ucontext_bytes(Architecture::NATIVE))
        };
        from_ucontext(Architecture::NATIVE, bytes)
            .is_ok_and(|registers| shared.answer(ThreadId(sys::gettid()), registers))
    });
    if !(answered && may_be_ours(info)) {
        call_earlier(signal, info, context);
    }
}

/// Whether a signal may come from this process's `tgkill`: it says so, or its sender got lost.
fn may_be_ours(info: *mut libc::siginfo_t) -> bool {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid siginfo; for these codes its second part begins with
    // the sender's process id.
    let (code, sender) = unsafe { ((*info).si_code, info.cast::<i32>().add(4).read()) };
    match code {
        libc::SI_TKILL => sender == sys::getpid(),
        libc::SI_USER => sender == 0,
        _ => false,
    }
}

/// Hands a signal that is not ours to the handler that was there before. The default action is not taken: for the
/// default signal, SIGURG, it is to do nothing.
fn call_earlier(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let earlier = EARLIER_HANDLER.load(Ordering::Relaxed);
    if earlier == libc::SIG_DFL || earlier == libc::SIG_IGN {
        return;
    }
    if EARLIER_FLAGS.load(Ordering::Relaxed) & libc::SA_SIGINFO as u64 != 0 {
        // SAFETY: the program installed this address as a handler of this form.
        let call: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
            unsafe { core::mem::transmute(earlier) };
        call(signal, info, context);
    } else {
        // SAFETY: the program installed this address as a handler of this form.
        let call: extern "C" fn(i32) = unsafe { core::mem::transmute(earlier) };
        call(signal);
    }
}
