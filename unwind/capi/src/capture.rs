//! Taking stacks.

use crate::context;
use crate::error::ff_error;
use crate::storage::{ff_core, with};
use crate::structs::take;
use core::ffi::c_void;
use freezeframe_unwind::snapshot::Options;
use freezeframe_unwind::threads::{self, ThreadId};

/// Whom to capture and how long to wait. Zero in each field is the default.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ff_options {
    /// `sizeof(ff_options)`.
    pub size: u32,
    /// The thread that is captured first and deepest. Zero is the main thread.
    pub first: i32,
    /// After how many milliseconds no further thread is stopped. Zero is 500.
    pub within_ms: u32,
    /// How many threads to leave out; 64 at most.
    pub exclude_count: u32,
    /// Which threads to leave out; null if none.
    pub exclude: *const i32,
    /// Zero.
    pub reserved: [u64; 4],
}

/// The calling thread's id, as this library names threads: on Linux as `gettid` returns it, on Mach the name of its port.
///
/// # Signal safety
/// Safe.
#[unsafe(no_mangle)]
pub extern "C" fn ff_current_thread() -> i32 {
    threads::current().0
}

/// Captures the calling thread, from its caller outward. The earlier capture is lost.
///
/// # Safety
/// `core` is null or from `ff_init`.
///
/// # Signal safety
/// Safe, with about 16 KiB of stack. Does not wait.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn ff_capture_self(core: *mut ff_core) -> ff_error {
    // Of this function, whose frame is left out.
    let registers = freezeframe_arch::capture();
    let act = |content: &mut crate::storage::Content| {
        content.snapshot.capture_own(&content.images, &registers, &Options::default());
        content.own_frames = 1;
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { with(core, act) }
}

/// Captures the calling thread as a signal has interrupted it. `ucontext` is the third argument of a handler that was installed with
/// `SA_SIGINFO`. The earlier capture is lost.
///
/// # Errors
/// `FF_ERROR_CONTEXT`.
///
/// # Safety
/// `core` is null or from `ff_init`; `ucontext` is null or the handler's, which has not returned.
///
/// # Signal safety
/// Safe, with about 16 KiB of stack: on an alternate one in handlers of crashes, of 64 KiB with what the kernel puts there. Does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_capture_context(core: *mut ff_core, ucontext: *const c_void) -> ff_error {
    if ucontext.is_null() {
        return ff_error::FF_ERROR_NULL;
    }
    // SAFETY: as the caller promises.
    let registers = match unsafe { context::registers(ucontext) } {
        Ok(registers) => registers,
        Err(error) => return error,
    };
    let act = |content: &mut crate::storage::Content| {
        content.snapshot.capture_own(&content.images, &registers, &Options::default());
        content.own_frames = 0;
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { with(core, act) }
}

/// Captures all threads of the process for a handler of crashes: the calling one first, as the signal has interrupted it. The earlier
/// capture is lost. Linux only. `options` may be null; its `first` is not looked at.
///
/// # Errors
/// `FF_ERROR_CONTEXT`, `FF_ERROR_ARGUMENT` if too many are left out, `FF_ERROR_UNSUPPORTED` on other systems.
///
/// # Safety
/// As of `ff_capture_context`; `options` is null or valid.
///
/// # Signal safety
/// Safe, with about 16 KiB of stack. Waits for 800 ms at most, and for as long as the options say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_capture_all_from_context(
    core: *mut ff_core,
    ucontext: *const c_void,
    options: *const ff_options,
) -> ff_error {
    if ucontext.is_null() {
        return ff_error::FF_ERROR_NULL;
    }
    // SAFETY: as the caller promises.
    let registers = match unsafe { context::registers(ucontext) } {
        Ok(registers) => registers,
        Err(error) => return error,
    };
    let act = |content: &mut crate::storage::Content| {
        content.own_frames = 0;
        // SAFETY: as the caller promises.
        unsafe { with_options(options, |options| context::capture_all(content, &registers, options)) }
    };
    // SAFETY: as the caller promises.
    unsafe { with(core, act) }
}

/// Captures one thread, `ff_current_thread`'s own included; one that cannot be stopped is there with the reason. The earlier capture
/// is lost.
///
/// # Errors
/// `FF_ERROR_ARGUMENT` for what can be no id.
///
/// # Safety
/// `core` is null or from `ff_init`.
///
/// # Signal safety
/// Safe, with about 16 KiB of stack. Waits for 100 ms at most.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_capture_thread(core: *mut ff_core, thread: i32) -> ff_error {
    if thread <= 0 {
        return ff_error::FF_ERROR_ARGUMENT;
    }
    let act = |content: &mut crate::storage::Content| {
        let options = Options::default();
        content.snapshot.capture_thread(&content.suspender, &content.images, ThreadId(thread), &options);
        content.own_frames = 0;
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { with(core, act) }
}

/// Captures all threads of the process, `FF_MAX_THREADS` at most. None is held for longer than its registers and its stack are
/// copied. The earlier capture is lost. `options` may be null.
///
/// # Errors
/// `FF_ERROR_THREADS`, `FF_ERROR_ARGUMENT` if too many are left out.
///
/// # Safety
/// `core` is null or from `ff_init`; `options` is null or valid.
///
/// # Signal safety
/// Safe, with about 16 KiB of stack. Waits, but never for longer than the options say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_capture_all(core: *mut ff_core, options: *const ff_options) -> ff_error {
    let act = |content: &mut crate::storage::Content| {
        content.own_frames = 0;
        let all = |options: &Options<'_>| {
            let captured = content.snapshot.capture(&content.suspender, &content.images, options);
            captured.map_err(|_| ff_error::FF_ERROR_THREADS)
        };
        // SAFETY: as the caller promises.
        unsafe { with_options(options, all) }
    };
    // SAFETY: as the caller promises.
    unsafe { with(core, act) }
}

/// # Safety
/// `options` is null or valid.
unsafe fn with_options(
    options: *const ff_options,
    act: impl FnOnce(&Options<'_>) -> Result<(), ff_error>,
) -> Result<(), ff_error> {
    // SAFETY: as the caller promises.
    let Some(given) = (unsafe { take(options) })? else { return act(&Options::default()) };
    let mut options = Options::default();
    let mut exclude = [ThreadId(0); MAX_EXCLUDED];
    if given.exclude_count > 0 {
        if given.exclude.is_null() {
            return Err(ff_error::FF_ERROR_NULL);
        }
        let wanted = given.exclude_count as usize;
        let room = exclude.get_mut(..wanted).ok_or(ff_error::FF_ERROR_ARGUMENT)?;
        for (index, thread) in room.iter_mut().enumerate() {
            // SAFETY: the caller promises so many.
            *thread = ThreadId(unsafe { given.exclude.add(index).read_unaligned() });
        }
        options.exclude = exclude.get(..wanted).unwrap_or(&[]);
    }
    if given.first != 0 {
        options.first = Some(ThreadId(given.first));
    }
    if given.within_ms != 0 {
        options.all_within_ns = u64::from(given.within_ms).saturating_mul(1_000_000);
    }
    act(&options)
}

/// How many threads can be left out.
const MAX_EXCLUDED: usize = 64;
