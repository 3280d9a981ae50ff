//! Linux: `/proc`, by descriptors that stay open, which costs a third of opening the files anew, and works when no
//! descriptor is left; and control groups.

mod groups;

use super::{AvailableMemory, MemoryOf, MemoryPressure, OpenFiles, ProcessMemory, open_files};
use crate::subject::Subject;
use groups::Group;
use rustix::fs::{CWD, Mode, OFlags, RawDir};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// What is read. Of the process that has opened it, so a child of a fork needs its own.
pub(crate) struct Sources {
    status: Kept,
    machine: Kept,
    pressure: Kept,
    descriptors: Kept,
    /// The control groups that could limit the process's memory, as they were when this was opened.
    groups: Vec<Group>,
    subject: Subject,
}

impl Sources {
    pub(crate) fn open(subject: Subject) -> Self {
        let folder = folder(subject);
        Self {
            status: Kept::open(&folder.join("status")),
            machine: Kept::open(Path::new("/proc/meminfo")),
            pressure: Kept::open(Path::new("/proc/pressure/memory")),
            descriptors: Kept::open(&folder.join("fd")),
            groups: groups::of_process(&folder),
            subject,
        }
    }

    /// What the kernel's `status` tells in a page of text; `smaps_rollup` would know the shared pages' parts, at twenty
    /// times the price.
    pub(crate) fn process_memory(&self) -> Option<ProcessMemory> {
        let mut buffer = [0; PAGE];
        let text = self.status.read(&mut buffer)?;
        // A kernel without swap has no such line.
        let swapped = kilobytes(text, b"VmSwap:").unwrap_or(0);
        Some(ProcessMemory {
            footprint_bytes: kilobytes(text, b"RssAnon:")?.saturating_add(swapped),
            resident_bytes: kilobytes(text, b"VmRSS:")?,
        })
    }

    pub(crate) fn available_memory(&self) -> Option<AvailableMemory> {
        let mut buffer = [0; PAGE];
        let text = self.machine.read(&mut buffer)?;
        let machine = AvailableMemory {
            of: MemoryOf::Machine,
            total_bytes: kilobytes(text, b"MemTotal:")?,
            available_bytes: kilobytes(text, b"MemAvailable:")?,
        };
        let limits = self.groups.iter().filter_map(Group::available);
        limits.chain([machine]).min_by_key(|memory| memory.available_bytes)
    }

    pub(crate) fn memory_pressure(&self) -> Option<MemoryPressure> {
        let mut buffer = [0; PAGE];
        stalls(self.pressure.read(&mut buffer)?)
    }

    pub(crate) fn open_files(&self) -> Option<OpenFiles> {
        // The size of this folder is the number of its entries; before Linux 6.2 it was zero.
        let counted = self.descriptors.0.as_ref().and_then(|folder| rustix::fs::fstat(folder).ok());
        let counted = counted.map(|status| status.st_size as u32).filter(|count| *count > 0);
        match self.subject {
            Subject::Own => counted.or_else(count_descriptors).map(open_files),
            other => Some(OpenFiles { open: counted?, limit: descriptor_limit(&folder(other)) }),
        }
    }
}

/// A process's folder.
fn folder(subject: Subject) -> PathBuf {
    subject.number().map_or_else(|| "/proc/self".into(), |number| format!("/proc/{number}").into())
}

/// How many descriptors another process may have; none: as many as it likes.
fn descriptor_limit(folder: &Path) -> Option<u32> {
    let limits = std::fs::read(folder.join("limits")).ok()?;
    number(line(&limits, b"Max open files")?)?.try_into().ok()
}

/// As much of a file as is read.
const PAGE: usize = 4096;

/// A file that stays open; none if it cannot be opened.
struct Kept(Option<OwnedFd>);

impl Kept {
    fn open(path: &Path) -> Self {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Self(rustix::fs::openat(CWD, path, flags, Mode::empty()).ok())
    }

    /// What it holds now, as much as there is room for.
    fn read<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        let read = rustix::io::pread(self.0.as_ref()?, &mut *buffer, 0).ok()?;
        buffer.get(..read)
    }
}

/// The number behind the name that a line begins with, of a text like `MemTotal:   16384 kB`: in bytes.
fn kilobytes(text: &[u8], name: &[u8]) -> Option<u64> {
    number(line(text, name)?)?.checked_mul(1024)
}

/// What follows the name that a line begins with.
fn line<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name))
}

/// The number that a text begins with, behind spaces.
fn number(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(text.get(..digits)?).ok()?.parse().ok()
}

/// `some avg10=1.23 avg60=… total=…`, and a line for `full`.
fn stalls(text: &[u8]) -> Option<MemoryPressure> {
    let share = |name| hundredths(line(text, name)?);
    let some_centi = share(b"some avg10=")?;
    Some(MemoryPressure { level: None, some_centi: Some(some_centi), full_centi: share(b"full avg10=") })
}

/// The hundredths in a number like `1.23`.
fn hundredths(text: &[u8]) -> Option<u32> {
    let whole: u32 = number(text)?.try_into().ok()?;
    let point = text.iter().position(|byte| *byte == b'.')?;
    let digits: u32 = number(text.get(point + 1..)?.get(..2)?)?.try_into().ok()?;
    whole.checked_mul(100)?.checked_add(digits)
}

/// Counts the descriptors by their list.
fn count_descriptors() -> Option<u32> {
    const PATH: &CStr = c"/proc/self/fd";
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(CWD, PATH, flags, Mode::empty()).ok()?;
    let mut buffer = [MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(folder, &mut buffer);
    // `.`, `..` and the folder's own are not counted.
    let mut count = 0u32;
    while let Some(entry) = entries.next() {
        entry.ok()?;
        count = count.saturating_add(1);
    }
    count.checked_sub(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &[u8] =
        b"Name:\tRssAnon: 9 kB\nVmRSS:\t    1800 kB\nRssAnon:\t     116 kB\nVmSwap:\t  24 kB\n";

    #[test]
    fn lines_are_found_by_what_they_begin_with() {
        assert_eq!(kilobytes(STATUS, b"RssAnon:"), Some(116 << 10));
        assert_eq!(kilobytes(STATUS, b"VmSwap:"), Some(24 << 10));
        assert_eq!(kilobytes(STATUS, b"VmPeak:"), None);
        assert_eq!(kilobytes(b"MemTotal:  99999999999999999999 kB\n", b"MemTotal:"), None);
        assert_eq!(number(b"max\n"), None);
    }

    #[test]
    fn the_time_lost_to_a_want_of_memory_is_read_to_the_hundredth() {
        let text = b"some avg10=12.34 avg60=1.00 avg300=0.20 total=99\nfull avg10=0.05 avg60=0.00 avg300=0.00 total=1\n";
        let expected = MemoryPressure { level: None, some_centi: Some(1234), full_centi: Some(5) };
        assert_eq!(stalls(text), Some(expected));
        assert_eq!(stalls(b"some avg10=100.00 avg60=1").unwrap().some_centi, Some(10_000));
        assert_eq!(stalls(b""), None);
        assert_eq!(stalls(b"some avg10=1"), None);
    }

    #[test]
    fn the_files_tell_of_this_process_and_this_machine() {
        let sources = Sources::open(Subject::Own);
        let memory = sources.process_memory().unwrap();
        assert!(memory.footprint_bytes > 100 << 10 && memory.footprint_bytes <= memory.resident_bytes);
        let available = sources.available_memory().unwrap();
        assert!(available.available_bytes > 0 && available.used_bytes() > 0, "{available:?}");
        let machine = rustix::system::sysinfo();
        assert!(available.total_bytes <= machine.totalram as u64 * u64::from(machine.mem_unit));
        let told = std::fs::read_to_string("/proc/pressure/memory").is_ok_and(|text| !text.is_empty());
        assert_eq!(sources.memory_pressure().is_some(), told);
    }

    #[test]
    fn descriptors_are_counted_alike_by_the_folders_size_and_by_its_list() {
        let sources = Sources::open(Subject::Own);
        // Other tests open files at the same time.
        let alike = (0..1000).any(|_| sources.open_files().map(|files| files.open) == count_descriptors());
        assert!(alike);
    }
}
