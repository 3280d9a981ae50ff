//! Linux: this process or another one.

use freezeframe_unwind::images::{ImageTable, ImagesError};
use freezeframe_unwind::memory::ProcessMemory;
use freezeframe_unwind::snapshot::{Options, Snapshot, SnapshotError};
use freezeframe_unwind::suspend::Suspender;
use freezeframe_unwind::threads::{self, ThreadFacts, ThreadId};
use rustix::fs::{CWD, FileType, Mode, OFlags, RawMode};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

pub(crate) use freezeframe_unwind::process::ProcessId as Subject;

pub(crate) fn pid(subject: Subject) -> u32 {
    subject.number().map_or_else(std::process::id, |number| number as u32)
}

pub(crate) fn parent(subject: Subject) -> u32 {
    match subject.number() {
        None => rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u32),
        Some(_) => field(subject, "PPid:").and_then(|parent| parent.parse().ok()).unwrap_or(0),
    }
}

/// The path of its executable.
pub(crate) fn executable(subject: Subject) -> Option<PathBuf> {
    match subject.number() {
        None => std::env::current_exe().ok(),
        Some(number) => std::fs::read_link(format!("/proc/{number}/exe")).ok(),
    }
}

/// The mode of what is open under that number.
pub(crate) fn descriptor_mode(subject: Subject, number: i32) -> Option<RawMode> {
    if let Some(process) = subject.number() {
        let status = rustix::fs::stat(format!("/proc/{process}/fd/{number}"));
        return status.ok().map(|status| status.st_mode);
    }
    // SAFETY: borrowed for one `fstat`, which says so if nothing is open under that number.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::fs::fstat(descriptor).ok().map(|status| status.st_mode)
}

/// Opens a file to read, by the path that the process has it under. Without an allocation; no other kind of file is waited for.
pub(crate) fn open(subject: Subject, path: &[u8]) -> Option<OwnedFd> {
    use std::io::Write;
    let mut name = [0; 4096];
    let mut rest = name.get_mut(..4095)?;
    if let Some(number) = subject.number() {
        write!(rest, "/proc/{number}/root").ok()?;
    }
    rest.write_all(path).ok()?;
    let name = std::ffi::CStr::from_bytes_until_nul(&name).ok()?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::openat(CWD, name, flags, Mode::empty()).ok()?;
    let mode = rustix::fs::fstat(&file).ok()?.st_mode;
    (FileType::from_raw_mode(mode) == FileType::RegularFile).then_some(file)
}

/// Whether an epoll's descriptor watches any others; none if that is not known. Without an allocation.
pub(crate) fn watched_descriptors(subject: Subject, number: i32) -> Option<bool> {
    use std::io::Write;
    let (mut path, mut text) = ([0; 64], [0; 1024]);
    // What is left are zeros, which end it.
    write!(&mut path[..63], "/proc/{}/fdinfo/{number}", pid(subject)).ok()?;
    let path = std::ffi::CStr::from_bytes_until_nul(&path).ok()?;
    let file = rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let read = rustix::io::read(file, &mut text).ok()?;
    let text = text.get(..read)?;
    Some(text.windows(5).any(|word| word == b"\ntfd:"))
}

/// The resident set: the second number of `statm`, in pages. Without an allocation, of this process.
pub(crate) fn footprint_bytes(subject: Subject) -> u64 {
    let mut buffer = [0; 128];
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = match subject.number() {
        None => rustix::fs::openat(CWD, c"/proc/self/statm", flags, Mode::empty()),
        Some(number) => rustix::fs::openat(CWD, format!("/proc/{number}/statm"), flags, Mode::empty()),
    };
    let read = file.and_then(|file| rustix::io::read(file, &mut buffer)).unwrap_or(0);
    let text = std::str::from_utf8(&buffer[..read]).unwrap_or("");
    let pages = text.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0).saturating_mul(rustix::param::page_size() as u64)
}

/// What stands behind a name in another process's `status`.
fn field(subject: Subject, name: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid(subject))).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
}

pub(crate) fn memory(subject: Subject) -> ProcessMemory {
    ProcessMemory::of(subject)
}

pub(crate) fn facts(subject: Subject, thread: ThreadId) -> ThreadFacts {
    threads::facts_of(subject, thread)
}

/// CPU time that all threads have had, ended ones included.
pub(crate) fn cpu_ns(subject: Subject) -> u64 {
    let Some(number) = subject.number() else { return crate::vitals::process_cpu_ns() };
    // The kernel derives the id of a process's clock from the process's: `CPUCLOCK_SCHED`.
    let clock = !number << 3 | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one time, and says so if there is no such clock.
    match unsafe { libc::clock_gettime(clock, &mut time) } {
        0 => (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64),
        _ => 0,
    }
}

/// Whether a debugger has attached to it.
pub(crate) fn is_traced(subject: Subject) -> bool {
    match subject {
        Subject::Own => freezeframe_report::process::is_debugged(),
        other => field(other, "TracerPid:").is_some_and(|tracer| tracer != "0"),
    }
}

pub(crate) fn refresh(subject: Subject, images: &mut ImageTable) -> Result<(), ImagesError> {
    images.refresh_of(subject)
}

pub(crate) fn capture<const T: usize, const F: usize, const A: usize>(
    subject: Subject,
    snapshot: &mut Snapshot<T, F, A>,
    suspender: &Suspender,
    images: &ImageTable,
    options: &Options<'_>,
) -> Result<(), SnapshotError> {
    match subject {
        Subject::Own => snapshot.capture(suspender, images, options),
        other => snapshot.capture_process(other, images, options),
    }
}

pub(crate) fn capture_thread<const T: usize, const F: usize, const A: usize>(
    subject: Subject,
    snapshot: &mut Snapshot<T, F, A>,
    suspender: &Suspender,
    images: &ImageTable,
    thread: ThreadId,
    options: &Options<'_>,
) {
    match subject {
        Subject::Own => snapshot.capture_thread(suspender, images, thread, options),
        other => snapshot.capture_thread_of(other, images, thread, options),
    }
}

pub(crate) fn function_start<const T: usize, const F: usize, const A: usize>(
    subject: Subject,
    snapshot: &mut Snapshot<T, F, A>,
    images: &ImageTable,
    lookup: u64,
) -> Option<u64> {
    snapshot.function_start_of(subject, images, lookup)
}
