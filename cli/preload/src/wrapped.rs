//! The functions of GLib's that the program calls through us.

use crate::library::{self, Context, Poll};
use crate::telling;
use freezeframe_monitor::Activity;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The default context, once its poll function is ours.
static CONTEXT: AtomicPtr<Context> = AtomicPtr::new(std::ptr::null_mut());
/// The poll function that it would have.
static POLL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// Runs of the main thread in each other.
static RUNS: AtomicU32 = AtomicU32::new(0);

/// A run of a loop, from when this is made until it is dropped.
struct Run {
    counts: bool,
}

impl Run {
    /// `context` is null for the default one.
    fn begin(context: *mut Context) -> Self {
        let counts = telling::is_watched() && hook(context);
        if counts {
            RUNS.fetch_add(1, Ordering::Relaxed);
        }
        Self { counts }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.counts && RUNS.fetch_sub(1, Ordering::Relaxed) == 1 && telling::is_watched() {
            telling::tell(Activity::Exit);
        }
    }
}

/// Makes the default context's poll function ours. False for another context.
fn hook(context: *mut Context) -> bool {
    let hooked = CONTEXT.load(Ordering::Relaxed);
    if !hooked.is_null() {
        return context.is_null() || context == hooked;
    }
    let (Some(default), Some(thread_default), Some(get), Some(set)) =
        (library::context_default(), library::thread_default(), library::get_poll(), library::set_poll())
    else {
        return false;
    };
    // SAFETY: as GLib declares them. The default context is made only if this run would make it: or, of a run of another
    // context, if that is not the thread's own.
    unsafe {
        if !context.is_null() && (thread_default() == context || default() != context) {
            return false;
        }
        let context = default();
        let poll: *mut c_void = get(context).map_or(std::ptr::null_mut(), |poll| poll as *mut c_void);
        POLL.store(poll, Ordering::Relaxed);
        CONTEXT.store(context, Ordering::Relaxed);
        set(context, Some(poll_and_tell));
    }
    true
}

/// The program's own poll function.
fn own_poll() -> Option<Poll> {
    // SAFETY: null, or a poll function.
    let own: Option<Poll> = unsafe { std::mem::transmute(POLL.load(Ordering::Relaxed)) };
    own.or_else(|| library::poll().map(|poll| poll as Poll))
}

unsafe extern "C" fn poll_and_tell(fds: *mut c_void, count: c_uint, timeout: c_int) -> c_int {
    let Some(own) = own_poll() else { return -1 };
    let tells = RUNS.load(Ordering::Relaxed) > 0 && telling::is_watched();
    // One that does not wait is a turn of the loop all the same.
    if tells && timeout != 0 {
        telling::tell(Activity::BeforeWaiting);
    }
    // SAFETY: as GLib has called.
    let ready = unsafe { own(fds, count, timeout) };
    if tells {
        telling::tell(Activity::AfterWaiting);
    }
    ready
}

/// # Safety
/// As of GLib's own.
#[unsafe(no_mangle)]
unsafe extern "C" fn g_main_loop_run(main_loop: *mut c_void) {
    let (Some(run), Some(context_of)) = (library::main_loop_run(), library::main_loop_get_context()) else {
        return;
    };
    // SAFETY: as the caller promises.
    unsafe {
        let context = if main_loop.is_null() { main_loop } else { context_of(main_loop) };
        let _run = Run::begin(context);
        run(main_loop);
    }
}

/// # Safety
/// As of GLib's own.
#[unsafe(no_mangle)]
unsafe extern "C" fn g_main_context_iteration(context: *mut Context, may_block: c_int) -> c_int {
    let Some(iteration) = library::iteration() else { return 0 };
    let _run = Run::begin(context);
    // SAFETY: as the caller promises.
    unsafe { iteration(context, may_block) }
}

/// # Safety
/// As of GLib's own.
#[unsafe(no_mangle)]
unsafe extern "C" fn g_main_context_set_poll_func(context: *mut Context, poll: Option<Poll>) {
    if is_hooked(context) {
        POLL.store(poll.map_or(std::ptr::null_mut(), |poll| poll as *mut c_void), Ordering::Relaxed);
    } else if let Some(set) = library::set_poll() {
        // SAFETY: as the caller promises.
        unsafe { set(context, poll) };
    }
}

/// # Safety
/// As of GLib's own.
#[unsafe(no_mangle)]
unsafe extern "C" fn g_main_context_get_poll_func(context: *mut Context) -> Option<Poll> {
    if is_hooked(context) {
        return own_poll();
    }
    // SAFETY: as the caller promises.
    library::get_poll().and_then(|get| unsafe { get(context) })
}

/// Whether it is the default context, and its poll function ours.
fn is_hooked(context: *mut Context) -> bool {
    let hooked = CONTEXT.load(Ordering::Relaxed);
    !hooked.is_null() && (context.is_null() || context == hooked)
}
