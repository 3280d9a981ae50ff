//! x86_64 Linux: the memory is made read-only, so that each instruction that stores into it is noticed; the processor runs
//! it alone (the trap flag), and the memory is looked at behind it.
//!
//! ```text
//! store ─▶ SIGSEGV: allow stores, trap behind this instruction ─▶ store again ─▶ SIGTRAP: count, forbid stores ─▶ …
//! ```
//!
//! One thread at a time: the state belongs to the signals' handlers, which the kernel runs on the thread that stores.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, Once, PoisonError};

const TRAP_FLAG: i64 = 0x100;

static BASE: AtomicUsize = AtomicUsize::new(0);
static LENGTH: AtomicUsize = AtomicUsize::new(0);
/// Where the memory is copied to behind the last store.
static COPY: AtomicUsize = AtomicUsize::new(0);
static LEFT: AtomicU32 = AtomicU32::new(0);
static COPIED: AtomicBool = AtomicBool::new(false);
/// The handler of SIGSEGV before ours.
static BEFORE: Mutex<Option<libc::sigaction>> = Mutex::new(None);

/// Does the work, and returns what the memory was like behind its store number `last`, if it has so many.
pub(in super::super) fn until<T>(
    base: NonNull<u8>,
    length: usize,
    last: u32,
    work: impl FnOnce() -> T,
) -> (T, Option<Vec<u8>>) {
    static ONE: Mutex<()> = Mutex::new(());
    static HANDLERS: Once = Once::new();
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    HANDLERS.call_once(|| {
        let before = handle(libc::SIGSEGV, on_store);
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        handle(libc::SIGTRAP, behind_store);
    });
    let mut copy = vec![0u8; length];
    BASE.store(base.as_ptr() as usize, SeqCst);
    LENGTH.store(length, SeqCst);
    COPY.store(copy.as_mut_ptr() as usize, SeqCst);
    LEFT.store(last, SeqCst);
    COPIED.store(false, SeqCst);
    allow_stores(false);
    let result = work();
    allow_stores(true);
    (result, COPIED.load(SeqCst).then_some(copy))
}

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

fn handle(signal: libc::c_int, handler: Handler) -> libc::sigaction {
    // SAFETY: all zero is an action without a handler.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler does nothing that is forbidden in one.
    assert_eq!(unsafe { libc::sigaction(signal, &raw const action, &raw mut before) }, 0);
    before
}

fn allow_stores(allow: bool) {
    let protection = libc::PROT_READ | if allow { libc::PROT_WRITE } else { 0 };
    // SAFETY: a whole mapping, whose contents stay.
    unsafe { libc::mprotect(BASE.load(SeqCst) as *mut libc::c_void, LENGTH.load(SeqCst), protection) };
}

extern "C" fn on_store(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel hands over both.
    let address = unsafe { (*info).si_addr() } as usize;
    if address.wrapping_sub(BASE.load(SeqCst)) >= LENGTH.load(SeqCst) {
        // Not ours: it comes again, to who handled it before.
        if let Ok(before) = BEFORE.try_lock()
            && let Some(before) = *before
        {
            // SAFETY: what was in force before.
            unsafe { libc::sigaction(signal, &raw const before, std::ptr::null_mut()) };
        }
        return;
    }
    allow_stores(true);
    set_trap(context, true);
}

extern "C" fn behind_store(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    set_trap(context, false);
    let left = LEFT.load(SeqCst).saturating_sub(1);
    LEFT.store(left, SeqCst);
    if left > 0 {
        return allow_stores(false);
    }
    let (from, to) = (BASE.load(SeqCst) as *const u8, COPY.load(SeqCst) as *mut u8);
    // SAFETY: both have that length, and the copy is read only after the work.
    unsafe { to.copy_from_nonoverlapping(from, LENGTH.load(SeqCst)) };
    COPIED.store(true, SeqCst);
}

fn set_trap(context: *mut libc::c_void, set: bool) {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the kernel hands over a context, and takes its flags when the handler returns.
    let flags = unsafe { &mut (*context).uc_mcontext.gregs[libc::REG_EFL as usize] };
    *flags = if set { *flags | TRAP_FLAG } else { *flags & !TRAP_FLAG };
}
