//! A writer that ends between two of its writes, a file that takes no more, and one that is cut off meanwhile.

mod common;

use common::{Folder, capture, owner, record};
use freezeframe_report::file::{ReportFile, Size};
use freezeframe_report::layout::{FIRST_SLOT, PAYLOAD};
use freezeframe_report::read::{RecordOutcome, Report};
use freezeframe_report::ring::{Behind, Owner, Ring, RingError};
use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const SIZE: Size = Size { slots: 4, stride: 64 * 1024 };
/// Of a process that has ended in an earlier boot.
const DEAD: Owner = Owner { pid: 1, start_ticks: 1, boot_id: [7; 16] };

/// How many writes the file still takes.
static LEFT: AtomicUsize = AtomicUsize::new(0);

fn write_while_it_lasts(descriptor: i32, at: u64, bytes: &[u8]) -> bool {
    let left = LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
    // SAFETY: the test keeps it open.
    let file = unsafe { BorrowedFd::borrow_raw(descriptor) }.try_clone_to_owned().unwrap();
    left.is_ok() && std::fs::File::from(file).write_all_at(bytes, at).is_ok()
}

/// One whole record in slot 2, and a second one whose file takes so many writes. Whether it was taken.
fn after(writes: usize, path: &Path, records: [&[u8]; 2]) -> Result<(), RingError> {
    drop(ReportFile::open(path, SIZE, owner()).unwrap());
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let bytes = FIRST_SLOT + SIZE.slots as usize * SIZE.stride as usize;
    let mut memory = vec![0u64; (bytes + 4096) / 8];
    let base = NonNull::new(memory.as_mut_ptr().cast::<u8>()).unwrap();
    let base = base.map_addr(|at| at.checked_add(at.get().next_multiple_of(4096) - at.get()).unwrap());
    // SAFETY: aligned, with room for the whole file behind it; nobody else has it.
    let ring = unsafe { Ring::new(base, SIZE.slots as usize, SIZE.stride as usize, DEAD) };
    let ring = ring.in_file(Behind { descriptor: file.as_raw_fd(), write: write_while_it_lasts });
    LEFT.store(usize::MAX, Ordering::Relaxed);
    ring.write(records[0]).unwrap();
    LEFT.store(writes, Ordering::Relaxed);
    ring.write(records[1]).map(drop)
}

#[test]
fn whatever_write_was_the_last_one_what_was_committed_is_whole_and_of_the_rest_there_is_a_prefix() {
    let captured = capture();
    let (one, two) = (record(&captured, 1, 60_000), record(&captured, 2, 60_000));
    let (mut prefixes, mut with_stack) = (0, 0);
    for writes in 0.. {
        let folder = Folder::new();
        let path = folder.path("r");
        let taken = after(writes, &path, [&one, &two]);
        let file = std::fs::read(&path).unwrap();
        let slot = |index: usize| &file[FIRST_SLOT + index * SIZE.stride as usize + PAYLOAD..];
        assert_eq!(&slot(2)[..one.len()], &one[..], "{writes}");
        let report = Report::open(&path).unwrap();
        assert!(report.torn.is_empty() && report.records[0].complete, "{writes}: {report:?}");
        if taken.is_ok() {
            assert!(report.is_whole() && report.records.len() == 2);
            assert_eq!(&slot(3)[..two.len()], &two[..]);
            break;
        }
        assert_eq!(taken, Err(RingError::NotTaken));
        if let [_, torn] = &report.records[..] {
            prefixes += 1;
            assert!(!torn.complete && torn.outcome == RecordOutcome::Killed, "{torn:?}");
            assert_eq!(torn.uuid, "02020202-0202-0202-0202-020202020202");
            with_stack += usize::from(torn.threads.first().is_some_and(|thread| !thread.frames.is_empty()));
        } else {
            assert_eq!(report.records.len(), 1);
        }
        // What it has claimed is free again for the next one: both general slots, and the reserve.
        Report::take(&path).unwrap();
        let file = ReportFile::open(&path, SIZE, owner()).unwrap();
        for _ in 0..3 {
            file.ring().write(&one).unwrap();
        }
        assert_eq!(file.ring().dropped(), Some(0), "{writes}");
    }
    assert!(with_stack >= 2 && prefixes > with_stack, "{prefixes} prefixes, {with_stack} with a stack");
}

#[test]
fn a_file_that_is_cut_off_again_and_again_while_it_is_written_to_does_not_end_the_program() {
    let captured = capture();
    let bytes = record(&captured, 1, 60_000);
    let folder = Folder::new();
    let path = folder.path("r");
    let file = ReportFile::open(&path, SIZE, owner()).unwrap();
    let size = std::fs::metadata(&path).unwrap().len();
    let (done, cuts) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let other = OpenOptions::new().write(true).open(&path).unwrap();
            while !done.load(Ordering::Relaxed) {
                other.set_len(0).unwrap();
                other.set_len(size).unwrap();
                cuts.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut written = 0u64;
        while cuts.load(Ordering::Relaxed) < 200 || written < 200 {
            if let Ok(slot) = file.ring().write(&bytes) {
                written += 1;
                // The crash's slot and the reserve are not asked for.
                (2..SIZE.slots as usize).for_each(|index| {
                    file.ring().consume(index, slot.sequence());
                });
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
