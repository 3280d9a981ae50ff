//! A report file, and processes that write to it until they die.

use super::super::scratch;
use super::{BYTES, SLOTS, STRIDE};
use freezeframe_report::file::{ReportFile, Size};
use freezeframe_report::layout::{COUNTERS, FIRST_SLOT, PAGE};
use freezeframe_report::ring::{Behind, Owner, Ring};
use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::ptr::NonNull;

/// A report file.
pub(super) struct Store {
    pub(super) path: PathBuf,
    file: File,
}

impl Store {
    pub(super) fn new() -> Self {
        let path = scratch::path("ring");
        let size = Size { slots: SLOTS as u32, stride: STRIDE as u32 };
        drop(ReportFile::open(&path, size, owner(0)).expect("a report file can be made"));
        let file = OpenOptions::new().read(true).write(true).open(&path).expect("the file is there");
        Self { path, file }
    }

    /// No record, and none was ever written.
    pub(super) fn clear(&self) {
        for (at, zeros) in [(COUNTERS, 16), (FIRST_SLOT, SLOTS * STRIDE)] {
            self.file.write_all_at(&vec![0; zeros], at as u64).expect("the file takes it");
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        self.file.read_exact_at(&mut bytes, 0).expect("the file keeps its size");
        bytes
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A process that writes: the ring in its memory, and the file behind it.
pub(super) struct Process {
    pub(super) ring: Ring,
    _memory: Box<[u8]>,
}

impl Process {
    /// Begins as those do that open a file.
    pub(super) fn begin(store: &Store, number: u32) -> Self {
        let mut memory = vec![0; BYTES + PAGE].into_boxed_slice();
        let start = memory.as_ptr().align_offset(PAGE);
        let pages = &mut memory[start..start + BYTES];
        pages.copy_from_slice(&store.bytes());
        let base = NonNull::new(pages.as_mut_ptr()).expect("allocated");
        // SAFETY: a page's alignment, that many bytes, which stay where they are while the ring lives.
        let ring = unsafe { Ring::new(base, SLOTS, STRIDE, owner(number)) };
        let ring = ring.in_file(Behind { descriptor: store.file.as_raw_fd(), write });
        ring.reclaim();
        Self { ring, _memory: memory }
    }
}

/// A process that has ended long ago.
fn owner(process: u32) -> Owner {
    Owner { pid: 0x4000_0000 + process, start_ticks: process.into(), boot_id: [7; 16] }
}

thread_local! {
    /// How many writes the process still lives for, and whether it dies in the middle of the last.
    static LEFT: Cell<(u32, bool)> = const { Cell::new((u32::MAX, false)) };
}

/// Does the work of a process that dies behind its write number `last`, or in the middle of that; zero: it lives on.
/// Returns whether it has died.
pub(super) fn until<T>(last: u32, middle: bool, work: impl FnOnce() -> T) -> (T, bool) {
    LEFT.set((if last == 0 { u32::MAX } else { last }, middle));
    let result = work();
    let died = LEFT.get().0 == 0;
    LEFT.set((u32::MAX, false));
    (result, died)
}

/// As [`Behind::write`] says, but that nothing comes from the dead. A signal ends a write between two pages, if it does.
fn write(descriptor: i32, at: u64, bytes: &[u8]) -> bool {
    let (left, middle) = LEFT.get();
    if left == 0 {
        return true;
    }
    LEFT.set((if left == u32::MAX { left } else { left - 1 }, middle));
    let page_end = (at as usize + bytes.len()) / PAGE * PAGE;
    let bytes = match left == 1 && middle {
        true => &bytes[..page_end.saturating_sub(at as usize)],
        false => bytes,
    };
    // SAFETY: the store's descriptor, which outlives its processes and is not closed here.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
    file.write_all_at(bytes, at).is_ok()
}
