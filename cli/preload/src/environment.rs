//! The environment as it would be without us.
//!
//! `FREEZEFRAME_PRELOAD` is `1` or `0`, for whether there was a variable `LD_PRELOAD` before, and the path of the shared memory;
//! our own path is the first in `LD_PRELOAD`. Both are changed where they lie: nothing is allocated, and `main`'s third argument
//! is the same array.

use std::ffi::{CStr, c_char};

const OURS: &[u8] = b"FREEZEFRAME_PRELOAD=";
const PRELOAD: &[u8] = b"LD_PRELOAD=";

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// Takes what is meant for us out of the environment: the path of the shared memory. None if nothing is. The text stays where it
/// is for good.
///
/// # Safety
/// No other thread is there.
pub(crate) unsafe fn take() -> Option<&'static CStr> {
    // SAFETY: as the caller promises; the array ends with a null pointer, and its strings with a zero.
    unsafe {
        let ours = find(OURS)?;
        let value = CStr::from_ptr((*ours).add(OURS.len()));
        remove(ours);
        let (was_there, path) = value.to_bytes().split_first()?;
        if let Some(preload) = find(PRELOAD) {
            match was_there {
                b'0' => remove(preload),
                _ => without_first(*preload),
            }
        }
        // The rest of a string that ends with a zero does so too.
        Some(CStr::from_ptr(path.as_ptr().cast()))
    }
}

/// The variable whose text begins like that.
unsafe fn find(name: &[u8]) -> Option<*mut *mut c_char> {
    // SAFETY: as for `take`.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            if CStr::from_ptr(*entry).to_bytes().starts_with(name) {
                return Some(entry);
            }
            entry = entry.add(1);
        }
    }
    None
}

unsafe fn remove(mut entry: *mut *mut c_char) {
    // SAFETY: an entry of the array; the last one is null.
    unsafe {
        while !(*entry).is_null() {
            *entry = *entry.add(1);
            entry = entry.add(1);
        }
    }
}

/// `LD_PRELOAD=ours:theirs` becomes `LD_PRELOAD=theirs`.
unsafe fn without_first(text: *mut c_char) {
    // SAFETY: a string of the environment's, which becomes shorter.
    unsafe {
        let value = text.add(PRELOAD.len());
        let bytes = CStr::from_ptr(value).to_bytes_with_nul();
        if let Some(colon) = bytes.iter().position(|byte| *byte == b':') {
            let rest = bytes.len() - (colon + 1);
            std::ptr::copy(value.add(colon + 1), value, rest);
        }
    }
}
