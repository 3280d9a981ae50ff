//! Making a file: under another name, with every block allocated and written, and then all at once under its own.
//!
//! A hole has no place on the disk, which may be full when there is something to write; so there are no holes.

use super::opened::Size;
use super::{FileError, system};
use crate::layout::{FIRST_SLOT, MAGIC, MAJOR, MINOR, PAGE, SECOND_SUPERBLOCK, Superblock, crc};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Its owner's alone: others could take records away, or read what the program was doing.
pub(super) const MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Makes the file at `path`, locked. None if there is one already.
pub(super) fn create(path: &Path, size: Size) -> Result<Option<OwnedFd>, FileError> {
    let bytes = size.file_bytes();
    // The kernel would end the process for what goes beyond.
    if getrlimit(Resource::Fsize).current.is_some_and(|most| most < bytes) {
        return Err(FileError::system(path, "create")(Errno::FBIG));
    }
    remove_leftovers(path);
    let temporary = Temporary::new(path)?;
    let file = &temporary.file;
    super::opened::lock(file, &temporary.path)?;
    let no_space = |action| {
        move |error| match error {
            Errno::NOSPC | Errno::DQUOT => FileError::NoSpace { path: path.to_owned(), bytes },
            error => FileError::system(path, action)(error),
        }
    };
    // Where this is not to be had, writing allocates too.
    if let Err(error @ (Errno::NOSPC | Errno::DQUOT)) = system::allocate(file, bytes) {
        return Err(no_space("allocate")(error));
    }
    write_all(file, &vec![0; FIRST_SLOT], 0).map_err(no_space("write"))?;
    let block = superblock(size);
    for at in [0, SECOND_SUPERBLOCK] {
        write_all(file, &block, at as u64).map_err(no_space("write"))?;
    }
    let zeros = vec![0; size.stride as usize];
    for slot in 0..u64::from(size.slots) {
        let at = FIRST_SLOT as u64 + slot * u64::from(size.stride);
        write_all(file, &zeros, at).map_err(no_space("write"))?;
    }
    temporary.rename(path)
}

fn superblock(size: Size) -> Vec<u8> {
    let mut block = Vec::with_capacity(size_of::<Superblock>());
    block.extend(MAGIC);
    block.extend(MAJOR.to_le_bytes());
    block.extend(MINOR.to_le_bytes());
    block.extend(size.slots.to_le_bytes());
    block.extend(size.stride.to_le_bytes());
    block.extend([0; 4]);
    block.extend(size.file_bytes().to_le_bytes());
    block.extend(uuid::Uuid::new_v4().as_bytes());
    block.extend([0; 12]);
    block.extend(crc(&[&block]).to_le_bytes());
    block
}

pub(super) fn write_all(file: impl AsFd, mut bytes: &[u8], mut at: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file.as_fd(), bytes, at) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or(&[]);
                at += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// How old a file is at least whose maker cannot be about to lock it.
const LEFT_OVER: Duration = Duration::from_secs(60);

/// Removes what makers of this file have left who were killed before it had its name. What cannot be removed stays.
fn remove_leftovers(path: &Path) {
    let (Some(folder), Some(prefix)) = (path.parent(), hidden_prefix(path)) else { return };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let unique = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
        let is_ours = unique.is_some_and(|unique| uuid::Uuid::try_parse_ascii(unique).is_ok());
        let is_old = |about: std::fs::Metadata| {
            about.is_file() && about.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= LEFT_OVER))
        };
        if !is_ours || !entry.metadata().is_ok_and(is_old) {
            continue;
        }
        let leftover = folder.join(name);
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(&leftover, flags, Mode::empty());
        if file.is_ok_and(|file| super::opened::lock(&file, &leftover).is_ok()) {
            let _ = rustix::fs::unlink(&leftover);
        }
    }
}

/// What the name of a file that has not got its own yet begins with.
fn hidden_prefix(path: &Path) -> Option<OsString> {
    let mut prefix = OsString::from(".");
    prefix.push(path.file_name()?);
    prefix.push(".");
    Some(prefix)
}

/// A file that goes away unless it gets its name.
struct Temporary {
    file: OwnedFd,
    path: PathBuf,
}

impl Temporary {
    fn new(path: &Path) -> Result<Self, FileError> {
        let mut hidden = hidden_prefix(path).ok_or_else(|| FileError::NotAFile(path.to_owned()))?;
        hidden.push(uuid::Uuid::new_v4().simple().to_string());
        let temporary = path.with_file_name(hidden);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = system::create_new(&temporary, flags, MODE).map_err(FileError::system(path, "create"))?;
        let made = Self { file, path: temporary };
        // Whatever the umask has taken away: the next start must be able to read it.
        rustix::fs::fchmod(&made.file, MODE).map_err(FileError::system(path, "create"))?;
        Ok(made)
    }

    /// Gives the file its name, unless that is taken.
    fn rename(self, path: &Path) -> Result<Option<OwnedFd>, FileError> {
        let renamed = match rustix::fs::renameat_with(CWD, &self.path, CWD, path, RenameFlags::NOREPLACE) {
            // A file system without that flag: a hard link does not replace either.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                rustix::fs::linkat(CWD, &self.path, CWD, path, AtFlags::empty()).inspect(|()| {
                    let _ = rustix::fs::unlink(&self.path);
                })
            }
            result => result,
        };
        match renamed {
            Ok(()) => {
                let file = self.file.try_clone().map_err(|error| FileError::System {
                    path: path.to_owned(),
                    action: "open",
                    error,
                })?;
                Ok(Some(file))
            }
            Err(Errno::EXIST) => Ok(None),
            Err(error) => Err(FileError::system(path, "create")(error)),
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After a rename there is nothing under this name any more.
        let _ = rustix::fs::unlink(&self.path);
    }
}

const _: () =
    assert!(FIRST_SLOT >= SECOND_SUPERBLOCK + size_of::<Superblock>() && FIRST_SLOT.is_multiple_of(PAGE));
