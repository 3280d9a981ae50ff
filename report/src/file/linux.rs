//! Files on Linux.
//!
//! On btrfs even written blocks are copied on writing, unless that is switched off while the file is empty.

use rustix::fs::{FallocateFlags, IFlags, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Makes an empty file.
pub(super) fn create_new(path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, flags, mode)
}

/// Takes `bytes` of the disk for an empty file.
pub(super) fn allocate(file: &OwnedFd, bytes: u64) -> Result<(), Errno> {
    // Where the file system knows no such flag, it needs none.
    if let Ok(flags) = rustix::fs::ioctl_getflags(file) {
        let _ = rustix::fs::ioctl_setflags(file, flags | IFlags::NOCOW);
    }
    rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes)
}

/// Takes the disk for the holes of a file of `bytes`.
pub(super) fn fill_holes(file: &OwnedFd, bytes: u64) -> Result<(), Errno> {
    rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes)
}

/// Brings what was written to the disk.
pub(super) fn sync(file: impl AsFd) -> std::io::Result<()> {
    Ok(rustix::fs::fdatasync(file)?)
}
