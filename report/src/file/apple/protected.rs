//! iOS and its kin: a file has a protection class. Of one that is encrypted while the screen is locked, a mapping cannot be
//! touched ten seconds after the lock; so a report file gets the class without protection, whatever the app's own is.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{CString, c_char, c_int, c_uint};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `PROTECTION_CLASS_D`: no protection.
const CLASS_D: c_int = 4;

unsafe extern "C" {
    /// `<fcntl.h>`: `open`, with a protection class for the file that it makes, and flags for reading raw bytes.
    fn open_dprotected_np(path: *const c_char, flags: c_int, class: c_int, raw: c_int, ...) -> c_int;
}

/// Makes an empty file.
pub(in super::super) fn create_new(path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    let mode = c_uint::from(mode.bits());
    // SAFETY: the path ends with a zero; the file that is opened is owned by nobody else.
    unsafe {
        let file = open_dprotected_np(path.as_ptr(), flags.bits() as c_int, CLASS_D, 0, mode);
        if file == -1 { Err(super::last_error()) } else { Ok(OwnedFd::from_raw_fd(file)) }
    }
}
