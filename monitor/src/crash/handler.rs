//! What a thread does in the handler.
//!
//! ```text
//! first to crash   OWNER: 0 → its id.  Goes over to the kept stack, writes the record, restores the earlier handlers,
//!                  and returns: the signal comes again, to who was there before.
//! crashes in that  OWNER is its own id.  Back to where it left its own stack: no record, or as much of one as there is.
//! another one      OWNER is another's.  Waits for the process to end, where it can be stopped and its stack be taken;
//!                  gives way after five seconds.
//! ```
//!
//! Whoever has set `OWNER` owns the writer and the kept stack. It is never given back: one process has one record.

use super::memory::Guarded;
use super::signals::{self, Info};
use super::stack;
use super::writer::Writer;
use crate::ending;
use freezeframe_arch::linux::{from_ucontext, ucontext_bytes};
use freezeframe_arch::{Architecture, Registers};
use freezeframe_asm::{call_on_stack, land};
use rustix::io::Errno;
use std::cell::UnsafeCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

/// What the handler goes on on. It takes 13 KiB of it; without optimisation, 40 KiB.
const STACK: usize = 128 << 10;
/// For signals that come meanwhile, and for the wait of a second thread: two signal frames.
const SMALL_STACK: usize = 64 << 10;
/// How long a second thread waits.
const GIVE_WAY_AFTER_NS: u64 = 5_000_000_000;

/// All that the handler needs. Never dropped.
struct Prepared {
    writer: UnsafeCell<Writer>,
    pid: u32,
    /// What stops a thread for a capture.
    stop_signal: i32,
    stack: Guarded,
    nested: Guarded,
    waiting: Guarded,
}

// SAFETY: the writer is used by the one thread that has set OWNER; the rest is only read.
unsafe impl Sync for Prepared {}
// SAFETY: as above.
unsafe impl Send for Prepared {}

static PREPARED: OnceLock<Prepared> = OnceLock::new();
/// The thread that has crashed first.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// Whether it has done what it could.
static DONE: AtomicBool = AtomicBool::new(false);
/// Where it left its own stack.
static LANDING: AtomicUsize = AtomicUsize::new(0);

/// Gets everything ready and installs the handlers.
pub(super) fn install(writer: Writer, stop_signal: i32) -> std::io::Result<()> {
    let memory = |bytes| Guarded::new(bytes).map_err(|error: Errno| std::io::Error::from(error));
    let prepared = Prepared {
        pid: writer.pid(),
        writer: UnsafeCell::new(writer),
        stop_signal,
        stack: memory(STACK)?,
        nested: memory(SMALL_STACK)?,
        waiting: memory(SMALL_STACK)?,
    };
    PREPARED.get_or_init(|| prepared);
    signals::install(handler)
}

/// Called on whatever stack there is, which may have little room: what takes more goes over to another.
extern "C" fn handler(_signal: i32, raw: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: as the kernel gave it.
    let info = unsafe { Info::read(raw) };
    // A forked child is another process; its file is not this one.
    if let Some(prepared) = PREPARED.get()
        && prepared.pid == std::process::id()
    {
        let me = freezeframe_unwind::threads::current().0;
        match OWNER.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                ending::begin();
                let crash = Interrupted { prepared, info, context };
                // SAFETY: OWNER makes the stack this thread's.
                unsafe { call_on_stack(prepared.stack.end(), report, &raw const crash as usize, &LANDING) };
                DONE.store(true, Ordering::Release);
            }
            Err(owner) if owner != me => wait(prepared),
            Err(_) if DONE.load(Ordering::Acquire) => {}
            // It says nothing of what this handler does, and the process ends anyway.
            Err(_) if info.is_from_another_process() => return,
            // SAFETY: stored by the call above, which this thread is in: nothing in it has anything to clean up.
            Err(_) => unsafe { land(LANDING.load(Ordering::Relaxed)) },
        }
    }
    signals::restore_earlier();
    signals::come_again(&info);
}

/// A signal as the handler was given it.
struct Interrupted<'a> {
    prepared: &'a Prepared,
    info: Info,
    context: *mut libc::c_void,
}

/// On the kept stack.
extern "C" fn report(crash: usize) {
    // SAFETY: the handler waits for this call, and keeps it meanwhile.
    let crash = unsafe { &*(crash as *const Interrupted<'_>) };
    // The thread's own alternate stack is where the handler began: a crash from here on must not begin there again. The
    // kernel puts the thread's own back when the handler returns.
    // SAFETY: the memory stays for good.
    let _ = unsafe { stack::replace(&stack::over(&crash.prepared.nested)) };
    // SAFETY: OWNER makes it this thread's.
    let writer = unsafe { &mut *crash.prepared.writer.get() };
    writer.write(&crash.info, registers(crash.context).as_ref());
}

/// The registers that the signal has interrupted.
fn registers(context: *mut libc::c_void) -> Option<Registers> {
    let bytes = ucontext_bytes(Architecture::NATIVE);
    // SAFETY: the third argument of such a handler is a ucontext of at least this size.
    let bytes = unsafe { std::slice::from_raw_parts(context.cast::<u8>(), bytes) };
    from_ucontext(Architecture::NATIVE, bytes).ok()
}

/// A second thread that has crashed: its stack is part of the first one's record.
fn wait(prepared: &'static Prepared) {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    static NOWHERE: AtomicUsize = AtomicUsize::new(0);
    if TAKEN.swap(true, Ordering::AcqRel) {
        // A third one cannot be stopped: the stack that it is on may be too small for that.
        wait_for_the_end(0);
    } else {
        // SAFETY: TAKEN makes the stack this thread's.
        unsafe {
            let stop_signal = prepared.stop_signal as usize;
            call_on_stack(prepared.waiting.end(), wait_for_the_end, stop_signal, &NOWHERE);
        }
    }
}

extern "C" fn wait_for_the_end(stop_signal: usize) {
    if stop_signal != 0 {
        // On this stack, not on the alternate one, where the frames are that lead to what has crashed. The kernel puts the
        // thread's own back when the handler returns.
        // SAFETY: there is none then.
        let _ = unsafe { stack::replace(&stack::NONE) };
        signals::unblock(stop_signal as i32);
    }
    let give_way = crate::clock::now().saturating_add(GIVE_WAY_AFTER_NS);
    while crate::clock::now() < give_way {
        let pause = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        // SAFETY: reads the time.
        unsafe { libc::nanosleep(&pause, std::ptr::null_mut()) };
    }
}
