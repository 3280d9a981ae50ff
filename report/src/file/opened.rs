//! A file that is open for writing records.

use super::create::{MODE, create, write_all};
use super::{FileError, system};
use crate::layout::{
    COUNTERS, Counters, FIRST_SLOT, MAX_FILE_BYTES, MAX_SLOTS, MAX_STRIDE, MIN_SLOTS, PAGE, PAYLOAD,
};
use crate::read::{Geometry, read_at, read_geometry};
use crate::ring::{Behind, Owner, Ring};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// How large a file to make. A file that exists keeps its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// How many records it can hold; two more are reserved: one for a crash, one for a freeze when all others are
    /// unread.
    pub slots: u32,
    /// Bytes of a slot: a multiple of 4,096.
    pub stride: u32,
}

impl Default for Size {
    /// Room for eight records of 256 KiB each, and the two that are reserved.
    fn default() -> Self {
        Self { slots: 10, stride: 256 * 1024 }
    }
}

impl Size {
    pub(super) fn file_bytes(self) -> u64 {
        FIRST_SLOT as u64 + u64::from(self.slots) * u64::from(self.stride)
    }

    fn check(self) -> Result<(), FileError> {
        if !(MIN_SLOTS..=MAX_SLOTS).contains(&self.slots) {
            return Err(FileError::Size(format!(
                "{} slots, allowed are {MIN_SLOTS} to {MAX_SLOTS}",
                self.slots
            )));
        }
        let stride = self.stride as usize;
        if !stride.is_multiple_of(PAGE) || stride < 2 * PAGE || self.stride > MAX_STRIDE {
            let what = "allowed are multiples of 4,096 from 8,192 to 64 Mi";
            return Err(FileError::Size(format!("slots of {stride} bytes, {what}")));
        }
        if self.file_bytes() > MAX_FILE_BYTES {
            return Err(FileError::Size(format!("{} bytes, allowed is 1 GiB", self.file_bytes())));
        }
        Ok(())
    }
}

/// A report file that this process, and no other, writes to.
///
/// ```
/// use freezeframe_report::file::{FileError, ReportFile, Size};
/// use freezeframe_report::ring::Owner;
/// # let directory = std::env::temp_dir().join(format!("freezeframe-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let path = directory.join("freezes.ffr");
/// let owner = Owner { pid: std::process::id(), start_ticks: 0, boot_id: [0; 16] };
/// let file = ReportFile::open(&path, Size::default(), owner)?;
/// assert!(matches!(ReportFile::open(&path, Size::default(), owner), Err(FileError::InUse(_))));
/// assert_eq!(file.ring().dropped(), Some(0));
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ReportFile {
    handle: Handle,
    path: PathBuf,
    /// What the ring keeps in memory.
    _heads: memmap2::MmapMut,
    file: OwnedFd,
}

/// What it takes to write to a file, without a reference to the heap.
#[derive(Debug)]
pub struct Handle {
    ring: Ring,
    bytes: u64,
}

impl ReportFile {
    /// Opens the file at `path` for writing, and makes it if there is none: mode 0600, every block allocated. Records
    /// that it holds stay.
    ///
    /// # Errors
    /// The path is not a report file of this user's that this version can write, another monitor has it, or there is no
    /// space for a new one. Nothing that exists is changed then.
    pub fn open(path: &Path, size: Size, owner: Owner) -> Result<Self, FileError> {
        size.check()?;
        let (file, geometry) = match open_existing(path)? {
            Some(existing) => existing,
            None => match create(path, size)? {
                Some(file) => (file, Geometry { slots: size.slots as usize, stride: size.stride as usize }),
                // Another process was faster.
                None => open_existing(path)?.ok_or_else(|| FileError::InUse(path.to_owned()))?,
            },
        };
        let failed = FileError::system(path, "read");
        let mut heads = read_heads(&file, geometry).map_err(failed)?;
        let base = NonNull::new(heads.as_mut_ptr()).ok_or_else(|| FileError::NotAFile(path.to_owned()))?;
        // SAFETY: the memory is page-aligned, has the geometry's size and lives as long as the ring; nobody else uses it.
        let ring = unsafe { Ring::new(base, geometry.slots, geometry.stride, owner) };
        let ring = ring.in_file(Behind { descriptor: file.as_raw_fd(), write });
        // The lock says that whoever had claimed one is gone.
        ring.reclaim();
        let handle = Handle { ring, bytes: geometry.file_bytes() as u64 };
        Ok(Self { handle, path: path.to_owned(), _heads: heads, file })
    }

    /// The slots.
    pub fn ring(&self) -> &Ring {
        &self.handle.ring
    }

    /// What it takes to write to the file, for who must not rely on the heap.
    ///
    /// # Safety
    /// It is not used any more when this value is dropped.
    pub unsafe fn handle(&self) -> Handle {
        Handle { ring: self.handle.ring.again(), bytes: self.handle.bytes }
    }

    /// Whether the file is still what it was. To be asked before anything is written: nobody will find it otherwise.
    ///
    /// # Errors
    /// The file was cut off or deleted, or this process may not write files of its size any more.
    pub fn check(&self) -> Result<(), FileError> {
        let status = rustix::fs::fstat(&self.file).map_err(FileError::system(&self.path, "examine"))?;
        let damaged = |what| Err(FileError::Damaged { path: self.path.clone(), what });
        match (status.st_size as u64, status.st_nlink) {
            (size, _) if size < self.handle.bytes => damaged("somebody has cut it off"),
            (_, 0) => damaged("somebody has deleted it"),
            _ if is_beyond_limit(self.handle.bytes) => {
                Err(FileError::system(&self.path, "write")(Errno::FBIG))
            }
            _ => Ok(()),
        }
    }

    /// The path that the file was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Brings what was written to the disk, so that it survives a power failure. May take long: not while anything waits.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&self) -> std::io::Result<()> {
        system::sync(&self.file)
    }
}

impl Handle {
    /// The slots.
    pub const fn ring(&self) -> &Ring {
        &self.ring
    }

    /// What [`ReportFile::check`] asks, for a signal handler.
    ///
    /// # Signal safety
    /// Safe: one `fstat` and one `getrlimit`.
    pub fn is_intact(&self) -> bool {
        self.ring.descriptor().is_some_and(|descriptor| {
            // SAFETY: open while this value may be used.
            let file = unsafe { BorrowedFd::borrow_raw(descriptor) };
            rustix::fs::fstat(file)
                .is_ok_and(|status| status.st_size as u64 >= self.bytes && status.st_nlink > 0)
                && !is_beyond_limit(self.bytes)
        })
    }
}

/// A process that writes beyond its limit is ended by SIGXFSZ.
fn is_beyond_limit(bytes: u64) -> bool {
    getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < bytes)
}

/// The memory of a ring in this file: what lies in front of the slots and of their payloads.
fn read_heads(file: &OwnedFd, geometry: Geometry) -> Result<memmap2::MmapMut, Errno> {
    let map = memmap2::MmapOptions::new().len(geometry.file_bytes()).no_reserve_swap().map_anon();
    let mut heads = map.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOMEM))?;
    let slots = (0..geometry.slots).map(|slot| (FIRST_SLOT + slot * geometry.stride, PAYLOAD));
    for (at, bytes) in slots.chain([(COUNTERS, size_of::<Counters>())]) {
        let head = &mut heads[at..at + bytes];
        if read_at(file, head, at as u64)? != bytes {
            return Err(Errno::IO);
        }
    }
    Ok(heads)
}

/// As [`Behind::write`] says.
fn write(descriptor: i32, at: u64, bytes: &[u8]) -> bool {
    // SAFETY: a descriptor that was closed is an error of the kernel's; a ring is not used when its file is closed.
    let file = unsafe { BorrowedFd::borrow_raw(descriptor) };
    write_all(file, bytes, at).is_ok()
}

/// Opens and locks a file that exists. None if there is nothing at `path`.
fn open_existing(path: &Path) -> Result<Option<(OwnedFd, Geometry)>, FileError> {
    // Non-blocking, so that a pipe in place of the file does not make this wait.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::ISDIR | Errno::NXIO) => return Err(FileError::NotAFile(path.to_owned())),
        Err(error) => return Err(FileError::system(path, "open")(error)),
    };
    let status = rustix::fs::fstat(&file).map_err(FileError::system(path, "examine"))?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(FileError::NotAFile(path.to_owned()));
    }
    if status.st_uid != rustix::process::geteuid().as_raw() || status.st_nlink > 1 {
        return Err(FileError::NotOurs(path.to_owned()));
    }
    let geometry = read_geometry(path, &file, status.st_size as u64)?;
    lock(&file, path)?;
    if Mode::from_raw_mode(status.st_mode) != MODE {
        rustix::fs::fchmod(&file, MODE).map_err(FileError::system(path, "protect"))?;
    }
    fill_holes(&file, path, &status)?;
    Ok(Some((file, geometry)))
}

/// A copy of a report file may have holes, and a store into one ends the program when the disk is full.
fn fill_holes(file: &OwnedFd, path: &Path, status: &Stat) -> Result<(), FileError> {
    let bytes = status.st_size as u64;
    if status.st_blocks as u64 * 512 >= bytes {
        return Ok(());
    }
    system::fill_holes(file, bytes).map_err(|error| match error {
        Errno::NOSPC | Errno::DQUOT => FileError::NoSpace { path: path.to_owned(), bytes },
        _ => FileError::Damaged { path: path.to_owned(), what: "it has holes, which cannot be filled here" },
    })
}

pub(super) fn lock(file: &OwnedFd, path: &Path) -> Result<(), FileError> {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        Errno::WOULDBLOCK => FileError::InUse(path.to_owned()),
        error => FileError::system(path, "lock")(error),
    })
}
