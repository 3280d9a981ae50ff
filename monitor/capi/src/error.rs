//! What a call returns.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a call returns: zero if all went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum ff_monitor_error {
    /// All went well.
    FF_MONITOR_OK = 0,
    /// A pointer that is needed is null.
    FF_MONITOR_ERROR_NULL = 1,
    /// A text is not UTF-8.
    FF_MONITOR_ERROR_TEXT = 2,
    /// An argument has a value that it cannot have.
    FF_MONITOR_ERROR_ARGUMENT = 3,
    /// The monitor was stopped.
    FF_MONITOR_ERROR_STOPPED = 4,
    /// Only the loop's thread may do that.
    FF_MONITOR_ERROR_THREAD = 5,
    /// This monitor watches in another way, nothing is paused or expected, or the ping was answered already.
    FF_MONITOR_ERROR_STATE = 6,
    /// The loop is watched already, or crashes of this process are reported already.
    FF_MONITOR_ERROR_ALREADY = 7,
    /// The report file cannot be used.
    FF_MONITOR_ERROR_FILE = 8,
    /// The system refused something.
    FF_MONITOR_ERROR_SYSTEM = 9,
    /// There is no such record, or no room for another value.
    FF_MONITOR_ERROR_NOT_FOUND = 10,
    /// This system, or this process, has no such thing.
    FF_MONITOR_ERROR_UNSUPPORTED = 11,
    /// The field `size` of a structure is smaller than the structure.
    FF_MONITOR_ERROR_SIZE = 12,
    /// A mistake in the library: it gave up the call.
    FF_MONITOR_ERROR_PANIC = 13,
}

use ff_monitor_error::*;

/// An error in words, for ever valid; never null.
#[unsafe(no_mangle)]
pub extern "C" fn ff_monitor_strerror(error: i32) -> *const c_char {
    words(error).as_ptr()
}

const fn words(error: i32) -> &'static CStr {
    match error {
        0 => c"no error",
        1 => c"a pointer that is needed is null",
        2 => c"a text is not UTF-8",
        3 => c"an argument has a value that it cannot have",
        4 => c"the monitor was stopped",
        5 => c"only the loop's thread may do that",
        6 => c"not in this state",
        7 => c"watched or installed already",
        8 => c"the report file cannot be used",
        9 => c"the system refused something",
        10 => c"there is no such thing",
        11 => c"there is no such thing on this system or in this process",
        12 => c"a structure's field `size` is too small",
        13 => c"a mistake in the library",
        _ => c"an unknown error",
    }
}

/// What the latest error of the calling thread was about, in words: those of `ff_monitor_strerror`, or better ones; empty before the
/// first error, never null. Valid until the thread's next error.
#[unsafe(no_mangle)]
pub extern "C" fn ff_monitor_last_error() -> *const c_char {
    LATEST.try_with(|latest| latest.borrow().words.as_ptr()).unwrap_or(c"".as_ptr())
}

#[derive(Default)]
struct Latest {
    words: CString,
    /// Whether they are of the call that is going on.
    of_this_call: bool,
}

thread_local! {
    static LATEST: RefCell<Latest> = RefCell::default();
}

/// Notes better words for `ff_monitor_last_error` than the error's own.
pub(crate) fn because(error: ff_monitor_error, words: impl Display) -> ff_monitor_error {
    let words = CString::new(words.to_string().replace('\0', " ")).unwrap_or_default();
    let _ = LATEST.try_with(|latest| *latest.borrow_mut() = Latest { words, of_this_call: true });
    error
}

/// The result of `act` as C has it. No panic goes further than this.
pub(crate) fn guarded(act: impl FnOnce() -> Result<(), ff_monitor_error>) -> ff_monitor_error {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(())) => FF_MONITOR_OK,
        Ok(Err(error)) => told(error),
        Err(_) => told(FF_MONITOR_ERROR_PANIC),
    }
}

#[cold]
fn told(error: ff_monitor_error) -> ff_monitor_error {
    let _ = LATEST.try_with(|latest| {
        let mut latest = latest.borrow_mut();
        if !std::mem::take(&mut latest.of_this_call) {
            latest.words = words(error as i32).to_owned();
        }
    });
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_and_words_are_kept() {
        assert_eq!(guarded(|| panic!("on purpose")), FF_MONITOR_ERROR_PANIC);
        let act = || Err(because(FF_MONITOR_ERROR_FILE, "no\0such file"));
        assert_eq!(guarded(act), FF_MONITOR_ERROR_FILE);
        // SAFETY: a terminated text, copied before the next error.
        let latest = || unsafe { CStr::from_ptr(ff_monitor_last_error()) }.to_owned();
        assert_eq!(latest().as_c_str(), c"no such file");
        // One without words of its own does not keep those of the one before.
        assert_eq!(guarded(|| Err(FF_MONITOR_ERROR_STATE)), FF_MONITOR_ERROR_STATE);
        assert_eq!(latest().as_c_str(), c"not in this state");
    }
}
