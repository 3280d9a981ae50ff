//! The reader against damage: no panic, and nothing damaged is called complete.

mod common;

use common::{Folder, SEGMENTATION_FAULT, capture, crash_record, owner, portion, record};
use freezeframe_report::file::{FileError, ReportFile, Size};
use freezeframe_report::layout::{FIRST_SLOT, Outcome, PAYLOAD};
use freezeframe_report::read::{Record, Report};
use freezeframe_report::ring::Live;
use freezeframe_report::show::{TextOptions, list_line, to_json, write_apple, write_text};
use proptest::prelude::{ProptestConfig, any, proptest};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const SIZE: Size = Size { slots: 4, stride: 64 * 1024 };

/// A file with complete records, two of freezes and one of a crash, and what they say.
struct Sample {
    _folder: Folder,
    path: PathBuf,
    file: File,
    records: Vec<Record>,
    /// Where something is stored.
    used: Vec<std::ops::Range<u64>>,
}

fn sample() -> Sample {
    let captured = capture();
    let folder = Folder::new();
    let path = folder.path("r");
    let report = ReportFile::open(&path, SIZE, owner()).unwrap();
    let mut used = vec![0..64, 512..528, 4096..4160];
    for n in 0..2 {
        let record = record(&captured, n, 60_000);
        let mut slot = report.ring().write(&record).unwrap();
        // An odd and an even number of updates.
        let tail = common::tail();
        assert!(report.ring().store_tail(&mut slot, &tail));
        for update in 0..=n {
            report.ring().update(&mut slot, Live::new(300_000_000 + u64::from(update), Outcome::Recovered));
        }
        let start = FIRST_SLOT as u64 + (2 + u64::from(n)) * u64::from(SIZE.stride);
        used.push(start..start + 192);
        used.push(start + PAYLOAD as u64..start + (PAYLOAD + record.len()) as u64);
        let room = report.ring().tail_room(&slot) as u64;
        let tail_at = start + u64::from(SIZE.stride) - 2 * room;
        used.push(tail_at..tail_at + tail.len() as u64);
    }
    let crash = crash_record(&captured, 2, SEGMENTATION_FAULT, 60_000);
    report.ring().write_crash(&crash).unwrap();
    let start = FIRST_SLOT as u64;
    used.push(start..start + 64);
    used.push(start + PAYLOAD as u64..start + (PAYLOAD + crash.len()) as u64);
    drop(report);
    let records = Report::open(&path).unwrap().records;
    assert!(records.len() == 3 && records.iter().all(|record| record.complete));
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    Sample { _folder: folder, path, file, records, used }
}

impl Sample {
    fn flip(&self, byte: u64, bit: u32) {
        let mut value = [0];
        self.file.read_exact_at(&mut value, byte).unwrap();
        self.file.write_all_at(&[value[0] ^ 1 << bit], byte).unwrap();
    }

    /// Reads the file; whatever is called complete must be one of the records, as it was.
    fn check(&self) -> Option<Report> {
        let report = match Report::open(&self.path) {
            Ok(report) => report,
            Err(FileError::Damaged { .. } | FileError::NotAReport(_)) => return None,
            Err(other) => panic!("{other}"),
        };
        for record in &report.records {
            if record.complete {
                assert!(self.records.contains(record), "damaged data was taken as whole: {record:#?}");
                continue;
            }
            // Whatever it is, it can be shown.
            write_text(&mut Vec::new(), record, TextOptions::default()).unwrap();
            write_apple(&mut Vec::new(), record).unwrap();
            to_json(record).unwrap();
            list_line(record);
        }
        assert!(report.dropped.is_none_or(|dropped| dropped == 0), "a damaged count was believed");
        Some(report)
    }
}

/// A small generator with a fixed seed: every run sees the same damage.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % bound
    }
}

#[test]
fn ten_thousand_bit_flips_and_truncations_are_noticed() {
    let sample = sample();
    let size = sample.file.metadata().unwrap().len();
    let mut random = Random(1);
    let (mut unreadable, mut marked, mut unharmed) = (0, 0, 0);
    let rounds = portion(10_000);
    println!("{rounds} rounds");
    for round in 0..rounds {
        if round % 10 == 9 {
            let length = random.below(size);
            let mut tail = vec![0; (size - length) as usize];
            sample.file.read_exact_at(&mut tail, length).unwrap();
            sample.file.set_len(length).unwrap();
            assert!(sample.check().is_none(), "a file cut to {length} bytes was read");
            sample.file.write_all_at(&tail, length).unwrap();
            unreadable += 1;
            continue;
        }
        let flips = 1 + random.below(3);
        let places: Vec<(u64, u32)> = (0..flips)
            .map(|_| {
                let range = &sample.used[random.below(sample.used.len() as u64) as usize];
                (range.start + random.below(range.end - range.start), random.below(8) as u32)
            })
            .collect();
        places.iter().for_each(|(byte, bit)| sample.flip(*byte, *bit));
        match sample.check() {
            None => unreadable += 1,
            Some(report) if report.records == sample.records => unharmed += 1,
            Some(_) => marked += 1,
        }
        places.iter().rev().for_each(|(byte, bit)| sample.flip(*byte, *bit));
    }
    assert_eq!(sample.check().unwrap().records, sample.records, "all damage was undone");
    println!("{marked} marked, {unreadable} unreadable, {unharmed} without effect on the records");
    assert!(marked > rounds * 4 / 10 && unreadable > rounds / 10);
}

#[test]
fn every_single_bit_of_a_header_and_a_cell_counts() {
    let sample = sample();
    let slot = FIRST_SLOT as u64 + 3 * u64::from(SIZE.stride);
    for byte in (slot..slot + 192).step_by(10 / portion(10)) {
        for bit in 0..8 {
            sample.flip(byte, bit);
            let complete = sample.check().unwrap().records.iter().filter(|record| record.complete).count();
            sample.flip(byte, bit);
            // The count of valid bytes says nothing of a committed record.
            let silent = (slot + 4..slot + 8).contains(&byte);
            assert_eq!(complete, if silent { 3 } else { 2 }, "bit {bit} of byte {}", byte - slot);
        }
    }
}

#[test]
fn a_newer_file_is_refused_by_name() {
    let sample = sample();
    for copy in [0u64, 4096] {
        let mut block = [0; 64];
        sample.file.read_exact_at(&mut block, copy).unwrap();
        block[8] = 2;
        let crc = freezeframe_report::layout::crc(&[&block[..60]]);
        block[60..].copy_from_slice(&crc.to_le_bytes());
        sample.file.write_all_at(&block, copy).unwrap();
    }
    let error = Report::open(&sample.path).unwrap_err().to_string();
    assert!(error.contains("format version 2") && error.contains("this program knows 1"), "{error}");
    let error = ReportFile::open(&sample.path, SIZE, owner()).unwrap_err().to_string();
    assert!(error.contains("use a newer freezeframe"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Arbitrary bytes behind valid superblocks.
    #[test]
    fn arbitrary_slots_are_read_without_a_panic(slots in proptest::collection::vec(any::<u8>(), 0..2000), state in 0u32..4, at in 0usize..3) {
        let folder = Folder::new();
        let path = folder.path("r");
        drop(ReportFile::open(&path, Size { slots: 3, stride: 8192 }, owner()).unwrap());
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        let slot = (FIRST_SLOT + at * 8192) as u64;
        file.write_all_at(&slots, slot).unwrap();
        file.write_all_at(&state.to_le_bytes(), slot).unwrap();
        let report = Report::open(&path).unwrap();
        assert!(report.records.iter().all(|record| !record.complete));
    }
}
