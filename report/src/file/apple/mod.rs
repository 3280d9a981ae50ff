//! Files on Apple's systems.

#[cfg(not(target_os = "macos"))]
mod protected;
#[cfg(target_os = "macos")]
mod unprotected;

#[cfg(not(target_os = "macos"))]
pub(super) use protected::create_new;
#[cfg(target_os = "macos")]
pub(super) use unprotected::create_new;

use super::create::write_all;
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Takes `bytes` of the disk for an empty file: in one piece if there is one, in several otherwise.
pub(super) fn allocate(file: &OwnedFd, bytes: u64) -> Result<(), Errno> {
    preallocate(file, libc::F_ALLOCATECONTIG | libc::F_ALLOCATEALL, bytes)
        .or_else(|_| preallocate(file, libc::F_ALLOCATEALL, bytes))
}

fn preallocate(file: &OwnedFd, flags: libc::c_uint, bytes: u64) -> Result<(), Errno> {
    let mut space = libc::fstore_t {
        fst_flags: flags,
        fst_posmode: libc::F_PEOFPOSMODE,
        fst_offset: 0,
        fst_length: i64::try_from(bytes).map_err(|_| Errno::FBIG)?,
        fst_bytesalloc: 0,
    };
    // SAFETY: an open file, and a structure that outlives the call.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_PREALLOCATE, &raw mut space) };
    if result == -1 { Err(last_error()) } else { Ok(()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Takes the disk for the holes of a file of `bytes`: writes zeros over what reads as zeros. Nobody else writes to it.
pub(super) fn fill_holes(file: &OwnedFd, bytes: u64) -> Result<(), Errno> {
    const CHUNK: usize = crate::layout::PAGE;
    let mut chunk = [0; CHUNK];
    for at in (0..bytes).step_by(CHUNK) {
        let read = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut chunk[..], at))?;
        if chunk[..read].iter().all(|byte| *byte == 0) {
            write_all(file, &chunk[..read], at)?;
        }
    }
    Ok(())
}

/// Brings what was written to the disk, and the disk's own cache to its medium.
pub(super) fn sync(file: impl AsFd) -> std::io::Result<()> {
    // Where the file system has no such call, the other must do.
    if rustix::fs::fcntl_fullfsync(&file).is_err() {
        rustix::fs::fsync(file)?;
    }
    Ok(())
}

#[cfg(all(test, target_os = "macos"))]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn space_is_taken_before_a_byte_is_written() {
        let path = std::env::temp_dir().join(format!("freezeframe-space-{}", std::process::id()));
        let file = std::fs::File::create_new(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let file = OwnedFd::from(file);
        allocate(&file, 1 << 20).unwrap();
        let file = std::fs::File::from(file);
        assert!(file.metadata().unwrap().blocks() * 512 >= 1 << 20, "taken");
        assert_eq!(file.metadata().unwrap().len(), 0, "and still empty");
    }

    #[test]
    fn more_than_the_disk_has_is_refused() {
        let path = std::env::temp_dir().join(format!("freezeframe-no-space-{}", std::process::id()));
        let file = std::fs::File::create_new(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(allocate(&OwnedFd::from(file), 1 << 55).is_err());
    }
}
