//! macOS: files can be read and written whenever the system runs.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Makes an empty file.
pub(in super::super) fn create_new(path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, flags, mode)
}
