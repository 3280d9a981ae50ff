//! Apple's systems: `sysctl`.

use super::{Status, kinfo};
use std::ffi::CStr;
use std::io::{Error, ErrorKind};

/// The text of that name in `sysctl`, in `buffer`; none if there is none, or it is longer. Does not allocate.
pub fn system_text<'a>(name: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let length = read(name, buffer)?;
    let text = buffer.get(..length)?;
    text.split(|byte| *byte == 0).next()
}

/// The number of that name in `sysctl`, of four or eight bytes. Does not allocate.
pub fn system_number(name: &CStr) -> Option<u64> {
    let mut buffer = [0; 8];
    let length = read(name, &mut buffer)?;
    matches!(length, 4 | 8).then(|| u64::from_le_bytes(buffer))
}

fn read(name: &CStr, out: &mut [u8]) -> Option<usize> {
    let mut length = out.len();
    // SAFETY: the name ends with a zero, and `out` has as many bytes as `length` says; nothing is set.
    let result = unsafe {
        let out = out.as_mut_ptr().cast();
        libc::sysctlbyname(name.as_ptr(), out, &mut length, std::ptr::null_mut(), 0)
    };
    (result == 0).then_some(length)
}

/// The boot's identifier; zero where the system does not tell it: a process is told by the microsecond of its start, too.
pub(super) fn boot_id() -> std::io::Result<[u8; 16]> {
    let mut buffer = [0; 64];
    let text = system_text(c"kern.bootsessionuuid", &mut buffer).unwrap_or(&[]);
    Ok(uuid::Uuid::try_parse_ascii(text).map(uuid::Uuid::into_bytes).unwrap_or([0; 16]))
}

pub(super) fn status(pid: u32) -> std::io::Result<Status> {
    let nothing = || Error::new(ErrorKind::NotFound, "the system says nothing of the process");
    kinfo::status(&info(pid)?, pid).ok_or_else(nothing)
}

pub(super) fn is_debugged() -> bool {
    info(std::process::id()).is_ok_and(|info| kinfo::is_traced(&info))
}

fn info(pid: u32) -> std::io::Result<[u8; kinfo::BYTES]> {
    let mut name = [libc::CTL_KERN, libc::KERN_PROC, libc::KERN_PROC_PID, pid as i32];
    let mut info = [0; kinfo::BYTES];
    let mut length = info.len();
    // SAFETY: four numbers, and as many bytes as `length` says; nothing is set.
    let result = unsafe {
        let out = info.as_mut_ptr().cast();
        libc::sysctl(name.as_mut_ptr(), 4, out, &mut length, std::ptr::null_mut(), 0)
    };
    match (result, length) {
        (0, kinfo::BYTES) => Ok(info),
        (0, _) => Err(Error::new(ErrorKind::NotFound, "there is no such process")),
        _ => Err(Error::last_os_error()),
    }
}
