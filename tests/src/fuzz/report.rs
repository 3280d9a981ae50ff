//! Arbitrary files through the reader: no panic, and nothing is called complete that is not.

use freezeframe_report::file::Size;
use freezeframe_report::layout::{FIRST_SLOT, MAGIC, crc};
use freezeframe_report::read::Report;
use freezeframe_report::show::{TextOptions, list_line, to_json, write_apple, write_text};
use std::path::PathBuf;

/// The bytes are what stands in three slots behind a right superblock, if they do not bring one themselves.
pub fn report(bytes: &[u8]) {
    let path = file(bytes);
    let Ok(report) = Report::open(&path) else { return };
    for record in &report.records {
        assert!(!record.complete || record.faults.is_empty() && record.dropped.is_some());
        write_text(&mut std::io::sink(), record, TextOptions::default()).expect("a sink takes everything");
        write_apple(&mut std::io::sink(), record).expect("a sink takes everything");
        to_json(record).expect("every record can be written as JSON");
        list_line(record);
    }
}

fn file(bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("freezeframe-fuzz-{}", std::process::id()));
    let contents = if bytes.starts_with(&MAGIC) { bytes.to_vec() } else { slots(bytes) };
    std::fs::write(&path, contents).expect("the temporary folder can be written");
    path
}

fn slots(bytes: &[u8]) -> Vec<u8> {
    let size = Size { slots: 3, stride: 8192 };
    let mut file = vec![0; FIRST_SLOT + 3 * 8192];
    let mut block = [&MAGIC[..], &[1, 0, 0, 0]].concat();
    block.extend(size.slots.to_le_bytes());
    block.extend(size.stride.to_le_bytes());
    block.resize(24, 0);
    block.extend((file.len() as u64).to_le_bytes());
    block.resize(60, 0);
    block.extend(crc(&[&block]).to_le_bytes());
    file[..64].copy_from_slice(&block);
    file[4096..4160].copy_from_slice(&block);
    let length = bytes.len().min(3 * 8192);
    file[FIRST_SLOT..FIRST_SLOT + length].copy_from_slice(&bytes[..length]);
    file
}
