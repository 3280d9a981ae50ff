//! Linux: the second number of `schedstat`, if the kernel keeps it.

use crate::subject::Subject;
use freezeframe_unwind::threads::ThreadId;
use rustix::fs::{CWD, Mode, OFlags};
use std::io::Write;

/// In nanoseconds, since the thread began. Without an allocation.
pub(crate) fn waited_ns(subject: Subject, thread: ThreadId) -> Option<u64> {
    let mut path = [0u8; 64];
    // The last byte stays zero.
    let (mut room, thread) = (&mut path[..63], thread.0);
    match subject.number() {
        None => write!(room, "/proc/self/task/{thread}/schedstat"),
        Some(process) => write!(room, "/proc/{process}/task/{thread}/schedstat"),
    }
    .ok()?;
    let path = std::ffi::CStr::from_bytes_until_nul(&path).ok()?;
    let file = rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = [0u8; 96];
    let read = rustix::io::read(&file, &mut text).ok()?;
    let text = std::str::from_utf8(text.get(..read)?).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}
