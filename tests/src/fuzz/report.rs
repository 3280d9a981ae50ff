//! Arbitrary files through the reader and every form that a record is shown in: no panic, nothing is called complete that
//! is not, and what is shown is harmless for a terminal and not much longer than the file.

use super::scratch::with_file;
use super::source::Source;
use freezeframe_report::layout::{FIRST_SLOT, LIVE_CELLS, MAGIC, PAYLOAD, SEALED, SECOND_SUPERBLOCK, crc};
use freezeframe_report::read::{Record, Report};
use freezeframe_report::show::{RegistersOf, TextOptions, list_line, to_json, write_apple, write_text};

const SLOTS: usize = 3;
const STRIDE: usize = 8192;

/// The first byte: 1 a file as it is, if it begins like one; 2 what stands in the slots; else sections, with checksums
/// that are right.
pub fn report(bytes: &[u8]) {
    let mut source = Source(bytes);
    let file = match source.u8() % 4 {
        1 if source.0.starts_with(&MAGIC) => source.0.to_vec(),
        2 => whole(source.0),
        _ => built(&mut source),
    };
    let report = with_file("report", &file, Report::open);
    let Ok(report) = report else { return };
    for record in &report.records {
        assert!(!record.complete || record.faults.is_empty() && record.dropped.is_some());
        show(record, file.len());
    }
    assert!(report.records.len() + report.torn.len() <= file.len() / STRIDE);
}

fn show(record: &Record, file_bytes: usize) {
    let options = TextOptions { registers: RegistersOf::All, ..TextOptions::default() };
    let (mut text, mut apple) = (Vec::new(), Vec::new());
    write_text(&mut text, record, options).expect("a vector takes everything");
    write_apple(&mut apple, record).expect("a vector takes everything");
    let json = to_json(record).expect("every record can be written as JSON");
    let [text, apple] = [text, apple].map(|bytes| String::from_utf8(bytes).expect("text"));
    assert!(!list_line(record).contains(char::is_control));
    for shown in [&text, &apple, &json] {
        let harmful = shown.lines().find(|line| line.contains(char::is_control));
        assert!(harmful.is_none(), "{harmful:?}");
        assert!(shown.len() <= (1 << 16) + 64 * file_bytes, "{} bytes", shown.len());
    }
    assert_eq!(apple.matches("\nBinary Images:\n").count(), 1, "one list of images");
}

/// A file of three slots, as these bytes have them.
fn whole(slots: &[u8]) -> Vec<u8> {
    let mut file = vec![0; FIRST_SLOT + SLOTS * STRIDE];
    let mut block = [&MAGIC[..], &[1, 0, 1, 0]].concat();
    block.extend((SLOTS as u32).to_le_bytes());
    block.extend((STRIDE as u32).to_le_bytes());
    block.resize(24, 0);
    block.extend((file.len() as u64).to_le_bytes());
    block.resize(60, 0);
    block.extend(crc(&[&block]).to_le_bytes());
    file[..64].copy_from_slice(&block);
    file[SECOND_SUPERBLOCK..SECOND_SUPERBLOCK + 64].copy_from_slice(&block);
    let length = slots.len().min(SLOTS * STRIDE);
    file[FIRST_SLOT..FIRST_SLOT + length].copy_from_slice(&slots[..length]);
    file
}

/// For each slot: its state, how its freeze ended, and sections until one is of no kind; then damage.
fn built(source: &mut Source<'_>) -> Vec<u8> {
    let mut slots = vec![0; SLOTS * STRIDE];
    for (slot, sequence) in slots.chunks_exact_mut(STRIDE).zip(1u64..) {
        let (state, outcome, duration) = (source.u8(), source.u8() % 4, source.u64());
        let payload = payload(source);
        let payload = &payload[..payload.len().min(STRIDE - PAYLOAD)];
        slot[PAYLOAD..PAYLOAD + payload.len()].copy_from_slice(payload);
        slot[0] = state % 4;
        // What the header says need not be so.
        let length = if state & 4 == 0 { payload.len() as u32 } else { source.u16().into() }.to_le_bytes();
        slot[4..8].copy_from_slice(&length);
        slot[8..16].copy_from_slice(&sequence.to_le_bytes());
        if state % 4 == 2 {
            slot[44..48].copy_from_slice(&length);
            slot[48..52].copy_from_slice(&crc(&[payload]).to_le_bytes());
        }
        seal(&mut slot[SEALED..64]);
        if outcome != 0 {
            let cell = &mut slot[LIVE_CELLS[0]..LIVE_CELLS[1]];
            let words = [1, sequence, duration, outcome.into()].map(u64::to_le_bytes).concat();
            cell[..32].copy_from_slice(&words);
            seal(cell);
        }
    }
    let mut file = whole(&slots);
    source.damage(&mut file);
    file
}

fn seal(bytes: &mut [u8]) {
    let end = bytes.len() - 4;
    let sum = crc(&[&bytes[..end]]);
    bytes[end..].copy_from_slice(&sum.to_le_bytes());
}

fn payload(source: &mut Source<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    loop {
        let kind = u32::from(source.u8() % 12);
        if kind == 0 {
            return payload;
        }
        let body = source.many();
        let head = [kind.to_le_bytes(), (body.len() as u32).to_le_bytes()].concat();
        payload.extend([&head[..], &crc(&[&head, body]).to_le_bytes(), body].concat());
    }
}

/// A record with a thread and an image, of which nothing is known.
pub(super) fn empty_record() -> Record {
    let mut bytes = vec![0, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0];
    for (kind, first, length) in [(1, 0, 240u8), (4, 0, 240), (5, 1, 240), (6, 0, 16)] {
        bytes.extend([kind, length, 0, first]);
        bytes.resize(bytes.len() + usize::from(length) - 1, 0);
    }
    // The end of the sections, then no other slot.
    bytes.push(0);
    let mut source = Source(&bytes[1..]);
    let report = with_file("record", &built(&mut source), Report::open);
    report.expect("a report file").records.swap_remove(0)
}
