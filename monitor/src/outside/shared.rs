//! A board in memory that a watched program and its watcher share: a library that was loaded into the program tells there what
//! its loop is about to do.

use crate::activity::Activity;
use crate::clock;
use crate::watch::Board;
use freezeframe_unwind::threads::ThreadId;
use rustix::fs::{CWD, MemfdFlags, Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Says what the memory is, in which version of its layout.
const MAGIC: u64 = u64::from_le_bytes(*b"FFboard\x01");

/// The memory.
#[derive(Debug)]
#[repr(C)]
struct Shared {
    magic: AtomicU64,
    /// The watcher's timeout.
    interval_ns: AtomicU64,
    /// Where the program has this memory; zero: it has not.
    address: AtomicU64,
    board: Board,
}

/// The memory that both sides see. It stays mapped for good: the program's loop may be telling at any time.
#[derive(Debug)]
pub struct SharedBoard {
    shared: &'static Shared,
    /// The watcher's, by which the program finds the memory.
    file: Option<OwnedFd>,
}

impl SharedBoard {
    /// Makes the memory, for a watcher.
    ///
    /// # Errors
    /// The system has none.
    pub fn new() -> std::io::Result<Self> {
        let file = rustix::fs::memfd_create(c"freezeframe", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, size_of::<Shared>() as u64)?;
        let place = map(file.as_fd())?;
        let shared = Shared {
            magic: AtomicU64::new(MAGIC),
            interval_ns: AtomicU64::new(u64::MAX),
            address: AtomicU64::new(0),
            board: Board::new(ThreadId(0), clock::now()),
        };
        // SAFETY: mapped just now, large enough, aligned to a page, and nobody else has it yet.
        let shared = unsafe {
            place.write(shared);
            place.as_ref()
        };
        Ok(Self { shared, file: Some(file) })
    }

    /// Where a program of the same user finds the memory, for as long as this process keeps it.
    pub fn path(&self) -> Option<String> {
        self.file.as_ref().map(|file| format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
    }

    /// The program's side: takes the memory at that path. None if it is not there, or of another version. Allocates nothing.
    pub fn join(path: &CStr, thread: ThreadId) -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let file = rustix::fs::openat(CWD, path, flags, Mode::empty()).ok()?;
        let facts = rustix::fs::fstat(&file).ok()?;
        if facts.st_size != size_of::<Shared>() as i64 {
            return None;
        }
        let place = map(file.as_fd()).ok()?;
        // SAFETY: mapped just now, of the size that a watcher has given it, and written by it before it told of it: atomics only.
        let shared = unsafe { place.as_ref() };
        if shared.magic.load(Ordering::Relaxed) != MAGIC {
            return None;
        }
        shared.board.set_thread(thread);
        shared.address.store(place.as_ptr() as u64, Ordering::Release);
        Some(Self { shared, file: None })
    }

    /// Tells what the loop is about to do, inside how many runs. No system call, no allocation.
    pub fn tell(&self, activity: Activity, depth: u32) {
        self.shared.board.set_depth(depth);
        self.shared.board.store(activity, clock::now(), self.shared.interval_ns.load(Ordering::Relaxed));
    }

    pub(super) fn set_interval(&self, interval_ns: u64) {
        self.shared.interval_ns.store(interval_ns, Ordering::Relaxed);
    }

    pub(super) const fn board(&self) -> &Board {
        &self.shared.board
    }

    /// Where the program has the memory's first word, and what that is.
    pub(super) fn in_program(&self) -> Option<(u64, u64)> {
        match self.shared.address.load(Ordering::Acquire) {
            0 => None,
            address => Some((address, MAGIC)),
        }
    }
}

fn map(file: impl AsFd) -> std::io::Result<NonNull<Shared>> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the system's choice.
    let place = unsafe {
        rustix::mm::mmap(std::ptr::null_mut(), size_of::<Shared>(), access, MapFlags::SHARED, file, 0)
    }?;
    NonNull::new(place.cast()).ok_or_else(|| std::io::ErrorKind::OutOfMemory.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    #[test]
    fn what_one_side_tells_the_other_reads() {
        let watcher = SharedBoard::new().unwrap();
        assert_eq!(watcher.in_program(), None);
        let path = CString::new(watcher.path().unwrap()).unwrap();
        let program = SharedBoard::join(&path, ThreadId(7)).unwrap();
        assert!(!watcher.board().read(0).reading.busy);
        program.tell(Activity::AfterWaiting, 2);
        let seen = watcher.board().read(0);
        assert_eq!((seen.reading.busy, seen.activity, seen.depth), (true, 64, 2));
        assert_eq!(watcher.board().thread(), ThreadId(7));
        let (address, word) = watcher.in_program().unwrap();
        // SAFETY: it is in this process, too.
        assert_eq!(unsafe { *(address as *const u64) }, word);
        assert!(SharedBoard::join(c"/proc/self/exe", ThreadId(7)).is_none(), "another file");
        assert!(SharedBoard::join(c"/nonexistent", ThreadId(7)).is_none());
    }
}
