//! What C passes.

use crate::error::ff_monitor_error::{self, *};
use std::ffi::{CStr, c_char};

/// A text that must be there.
///
/// # Safety
/// It is null, or ends with a zero and stays as it is until the call returns.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, ff_monitor_error> {
    // SAFETY: as the caller promises.
    unsafe { optional_text(text) }?.ok_or(FF_MONITOR_ERROR_NULL)
}

/// A text that may be null.
///
/// # Safety
/// As of [`text`].
pub(crate) unsafe fn optional_text<'a>(text: *const c_char) -> Result<Option<&'a str>, ff_monitor_error> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| FF_MONITOR_ERROR_TEXT)
}

/// Gives `value` to the caller.
///
/// # Safety
/// `out` is null or can be written to.
pub(crate) unsafe fn give<T>(out: *mut T, value: T) -> Result<(), ff_monitor_error> {
    if out.is_null() {
        return Err(FF_MONITOR_ERROR_NULL);
    }
    // SAFETY: as the caller promises.
    unsafe { out.write(value) };
    Ok(())
}

/// Whether a structure of the caller's, which begins with the number of its bytes, is as long as ours.
///
/// # Safety
/// It is null, or begins with its size.
pub(crate) unsafe fn check_size<T>(structure: *const T) -> Result<(), ff_monitor_error> {
    if structure.is_null() {
        return Err(FF_MONITOR_ERROR_NULL);
    }
    // SAFETY: as the caller promises.
    let size = unsafe { structure.cast::<u32>().read() };
    if (size as usize) < size_of::<T>() { Err(FF_MONITOR_ERROR_SIZE) } else { Ok(()) }
}
