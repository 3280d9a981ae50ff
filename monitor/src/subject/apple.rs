//! Apple's systems: this process.

use freezeframe_unwind::images::{ImageTable, ImagesError};
use freezeframe_unwind::memory::ProcessMemory;
use freezeframe_unwind::snapshot::{Options, Snapshot, SnapshotError};
use freezeframe_unwind::suspend::Suspender;
use freezeframe_unwind::threads::{self, ThreadFacts, ThreadId};
use rustix::fs::RawMode;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// The process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Subject {
    /// This one.
    #[default]
    Own,
}

pub(crate) fn pid(_: Subject) -> u32 {
    std::process::id()
}

pub(crate) fn parent(_: Subject) -> u32 {
    rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u32)
}

/// The path of its executable.
pub(crate) fn executable(_: Subject) -> Option<PathBuf> {
    std::env::current_exe().ok()
}

/// The mode of what is open under that number.
pub(crate) fn descriptor_mode(_: Subject, number: i32) -> Option<RawMode> {
    // SAFETY: borrowed for one `fstat`, which says so if nothing is open under that number.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::fs::fstat(descriptor).ok().map(|status| status.st_mode)
}

/// Opens a file to read: not needed, since all symbols lie in memory.
pub(crate) fn open(_: Subject, _: &[u8]) -> Option<OwnedFd> {
    None
}

/// Whether an event queue watches anything: not known.
pub(crate) fn watched_descriptors(_: Subject, _: i32) -> Option<bool> {
    None
}

/// `phys_footprint`: what the system's limit on memory is about.
pub(crate) fn footprint_bytes(_: Subject) -> u64 {
    crate::facts::task_memory().map_or(0, |memory| memory.phys_footprint)
}

pub(crate) fn memory(_: Subject) -> ProcessMemory {
    ProcessMemory::new()
}

pub(crate) fn facts(_: Subject, thread: ThreadId) -> ThreadFacts {
    threads::facts(thread)
}

pub(crate) fn cpu_ns(_: Subject) -> u64 {
    crate::vitals::process_cpu_ns()
}

pub(crate) fn is_traced(_: Subject) -> bool {
    freezeframe_report::process::is_debugged()
}

pub(crate) fn refresh(_: Subject, images: &mut ImageTable) -> Result<(), ImagesError> {
    images.refresh()
}

pub(crate) fn capture<const T: usize, const F: usize, const A: usize>(
    _: Subject,
    snapshot: &mut Snapshot<T, F, A>,
    suspender: &Suspender,
    images: &ImageTable,
    options: &Options<'_>,
) -> Result<(), SnapshotError> {
    snapshot.capture(suspender, images, options)
}

pub(crate) fn capture_thread<const T: usize, const F: usize, const A: usize>(
    _: Subject,
    snapshot: &mut Snapshot<T, F, A>,
    suspender: &Suspender,
    images: &ImageTable,
    thread: ThreadId,
    options: &Options<'_>,
) {
    snapshot.capture_thread(suspender, images, thread, options);
}

pub(crate) fn function_start<const T: usize, const F: usize, const A: usize>(
    _: Subject,
    snapshot: &mut Snapshot<T, F, A>,
    images: &ImageTable,
    lookup: u64,
) -> Option<u64> {
    snapshot.function_start(images, lookup)
}
