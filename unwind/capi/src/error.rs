//! What a call returns.

use core::ffi::{CStr, c_char};
use freezeframe_unwind::suspend::SuspendError;

/// What a call returns: zero if all went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum ff_error {
    /// All went well.
    FF_OK = 0,
    /// A pointer that is needed is null.
    FF_ERROR_NULL = 1,
    /// The memory is too small, badly aligned, or was not set up by `ff_init`.
    FF_ERROR_STORAGE = 2,
    /// The memory is in use: by another thread, or by what this signal handler has interrupted.
    FF_ERROR_BUSY = 3,
    /// There is no such thread, frame or image.
    FF_ERROR_NOT_FOUND = 4,
    /// The field `size` of a structure is smaller than the structure.
    FF_ERROR_SIZE = 5,
    /// The kernel refuses the handler of the signal that stops threads.
    FF_ERROR_INIT = 6,
    /// The threads cannot be listed.
    FF_ERROR_THREADS = 7,
    /// The images cannot be listed.
    FF_ERROR_IMAGES = 8,
    /// The `ucontext_t` cannot be read.
    FF_ERROR_CONTEXT = 9,
    /// This system cannot do that.
    FF_ERROR_UNSUPPORTED = 10,
    /// An argument has a value that it cannot have.
    FF_ERROR_ARGUMENT = 11,
}

use ff_error::*;

impl ff_error {
    pub(crate) const fn of(result: Result<(), Self>) -> Self {
        match result {
            Ok(()) => FF_OK,
            Err(error) => error,
        }
    }
}

/// An error in words, for ever valid; never null.
///
/// # Signal safety
/// Safe.
#[unsafe(no_mangle)]
pub extern "C" fn ff_strerror(error: i32) -> *const c_char {
    let text: &CStr = match error {
        0 => c"no error",
        1 => c"a pointer that is needed is null",
        2 => c"the memory is too small, badly aligned or not set up",
        3 => c"the memory is in use",
        4 => c"there is no such thing",
        5 => c"a structure's field `size` is too small",
        6 => c"the signal's handler could not be installed",
        7 => c"the threads cannot be listed",
        8 => c"the images cannot be listed",
        9 => c"the registers that the signal has interrupted cannot be read",
        10 => c"this system cannot do that",
        11 => c"an argument has a value that it cannot have",
        _ => c"an unknown error",
    };
    text.as_ptr()
}

/// Why a walk has ended, in words, for ever valid; never null. `stop` is `ff_thread.stop`.
///
/// # Signal safety
/// Safe.
#[unsafe(no_mangle)]
pub extern "C" fn ff_stop_text(stop: u32) -> *const c_char {
    let text: &CStr = match stop {
        0 => c"not walked",
        1 => c"end of stack",
        2 => c"null return address",
        3 => c"misaligned frame pointer",
        4 => c"a frame that is not above its callee's",
        5 => c"frame pointer outside the stack",
        6 => c"unreadable memory",
        7 => c"return address not in code",
        8 => c"step limit reached",
        9 => c"no rule for this address",
        10 => c"no memory can be read",
        _ => c"an unknown reason",
    };
    text.as_ptr()
}

/// Why a thread was not held, or not in a better way, in words. Copies at most `size` bytes with a zero at their end to `text`, and
/// returns how many bytes the words have without it. `why` is `ff_thread.why`.
///
/// # Safety
/// `text` is null, or has room for `size` bytes.
///
/// # Signal safety
/// Safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_why_text(why: u32, text: *mut c_char, size: usize) -> usize {
    let words = match u8::try_from(why) {
        Ok(0) => "",
        Ok(code) => SuspendError::from_code(code).map_or("an unknown reason", SuspendError::text),
        Err(_) => "an unknown reason",
    };
    if !text.is_null() && size > 0 {
        let copied = words.len().min(size.saturating_sub(1));
        // SAFETY: the caller promises `size` bytes, of which these and the zero behind them are a part.
        unsafe {
            core::ptr::copy_nonoverlapping(words.as_ptr(), text.cast(), copied);
            text.add(copied).write(0);
        }
    }
    words.len()
}
