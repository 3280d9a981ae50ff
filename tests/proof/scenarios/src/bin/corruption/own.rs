//! What the ring keeps in memory, with other words in it; and its file, with other bytes in it.

use super::target::Random;
use freezeframe_report::encode::encode;
use freezeframe_report::file::{ReportFile, Size};
use freezeframe_report::layout::{FIRST_SLOT, Outcome};
use freezeframe_report::read::Report;
use freezeframe_report::ring::{Behind, Live, Owner, Ring};
use freezeframe_scenarios::{about, numbered};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;

const SIZE: Size = Size { slots: 5, stride: 64 * 1024 };
const ROUNDS: usize = 600;

fn write(descriptor: i32, at: u64, bytes: &[u8]) -> bool {
    // SAFETY: the kernel reads the bytes.
    let written = unsafe { libc::pwrite64(descriptor, bytes.as_ptr().cast(), bytes.len(), at as i64) };
    written == bytes.len() as isize
}

/// Whatever stands there, a record is taken or refused, and a reader comes to the end; the record that was taken is whole if
/// nothing was damaged after it.
pub(crate) fn run(folder: &Path) {
    let path = folder.join("own.ffr");
    let owner = Owner::this_process().expect("/proc");
    drop(ReportFile::open(&path, SIZE, owner).expect("a new file"));
    let mut captured = super::captures::Capturer::new();
    captured.images.refresh().expect("the list of mappings");
    let record = captured.record();
    let file = std::fs::File::options().read(true).write(true).open(&path).expect("it is there");
    let bytes = FIRST_SLOT + SIZE.slots as usize * SIZE.stride as usize;
    let mut memory = vec![0u64; bytes / 8 + 512];
    let address = memory.as_mut_ptr() as usize;
    let base = (address.next_multiple_of(4096)) as *mut u8;
    // SAFETY: aligned, with room for what the file has; the words are touched by nobody else at the same time.
    let ring = unsafe {
        Ring::new(NonNull::new(base).expect("memory"), SIZE.slots as usize, SIZE.stride as usize, owner)
    };
    let ring = ring.in_file(Behind { descriptor: file.as_raw_fd(), write });
    let mut random = Random(0x1234_5678_9abc_def1);
    let (mut taken, mut refused, mut whole) = (0, 0, 0);
    for round in 0..ROUNDS {
        for _ in 0..random.below(12) {
            let slot = FIRST_SLOT + random.below(SIZE.slots as usize) * SIZE.stride as usize;
            let at =
                if random.below(6) == 0 { 512 + random.below(4) * 4 } else { slot + random.below(48) * 4 };
            let word = if random.below(2) == 0 { random.next() as u32 } else { random.below(5) as u32 };
            // SAFETY: inside the memory, aligned.
            unsafe { base.add(at).cast::<u32>().write_volatile(word) };
        }
        if round % 3 == 0 {
            let _ =
                file.write_all_at(&random.next().to_le_bytes().repeat(32), random.below(bytes - 512) as u64);
        }
        let number = 1_000_000 + round as u64;
        let mut record = record.clone();
        numbered(&mut record, number);
        match if random.below(4) == 0 { ring.write_crash(&record) } else { ring.write(&record) } {
            Ok(mut slot) => {
                taken += 1;
                ring.update(&mut slot, Live::new(5, Outcome::Recovered));
                let uuid = format!("{number:012x}");
                if let Ok(report) = Report::open(&path) {
                    let found = report.records.iter().find(|record| record.uuid.ends_with(&uuid));
                    let complete = found.is_some_and(|record| record.complete);
                    assert!(complete, "round {round}: what was taken is {found:?}");
                    whole += 1;
                }
            }
            Err(_) => refused += 1,
        }
        (0..SIZE.slots as usize).for_each(|slot| ring.clear(slot));
    }
    assert!(taken > ROUNDS / 2, "{taken} taken, {refused} refused");
    println!("captures={taken} marked={} ", taken - whole);
}

impl super::captures::Capturer {
    fn record(&mut self) -> Vec<u8> {
        let current = freezeframe_unwind::threads::current();
        drop(self.take(current, &Default::default()));
        let mut bytes = vec![0; 60_000];
        let encoded = encode(&mut bytes, &about("own"), &self.view(), &self.images);
        bytes.truncate(encoded.bytes);
        bytes
    }
}
