//! A whole file.

use super::decode::decode;
use super::geometry::{Geometry, read_at, read_geometry};
use super::record::{Record, RecordOutcome};
use super::slot;
use crate::file::{FileError, ReportFile, Size};
use crate::layout::{COUNTERS, Counters, FIRST_SLOT, PAYLOAD, SlotState};
use crate::ring::Owner;
use core::mem::offset_of;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;

/// The unread records of a report file.
#[derive(Debug)]
pub struct Report {
    /// The records, by age.
    pub records: Vec<Record>,
    /// Slots of whose record nothing can be believed.
    pub torn: Vec<Torn>,
    /// How many records found no place; none if that count is damaged.
    pub dropped: Option<u32>,
}

/// A slot of whose record nothing can be believed.
#[derive(Debug)]
pub struct Torn {
    /// The slot.
    pub slot: usize,
    /// What is wrong with it.
    pub what: String,
}

impl Report {
    /// Reads all that can be read of the file at `path`. It may be written to meanwhile.
    ///
    /// # Errors
    /// The path is not a report file that this version can read. A damaged record is no error: it is marked.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let file = open_file(path)?;
        let status = rustix::fs::fstat(&file).map_err(FileError::system(path, "examine"))?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(FileError::NotAFile(path.to_owned()));
        }
        let geometry = read_geometry(path, &file, status.st_size as u64)?;
        let failed = FileError::system(path, "read");
        let mut report =
            Self { records: Vec::new(), torn: Vec::new(), dropped: dropped(&file).map_err(&failed)? };
        let (mut bytes, mut tail) = (Vec::new(), Vec::new());
        for index in 0..geometry.slots {
            copy_slot(&file, geometry, index, &mut bytes, &mut tail).map_err(&failed)?;
            report.add_slot(index, &bytes, &tail);
        }
        report.records.sort_by_key(|record| record.sequence);
        Ok(report)
    }

    /// Reads the file like [`open`](Self::open), and frees the slots of what was read, damaged records included: what a
    /// program does at its start with what its last run has left, before it starts to watch. Freezes that still go on in
    /// another process stay.
    ///
    /// # Errors
    /// Besides those of [`open`](Self::open): a monitor writes to the file.
    pub fn take(path: &Path) -> Result<Self, FileError> {
        let owner = Owner::this_process().map_err(|error| FileError::System {
            path: path.to_owned(),
            action: "examine",
            error,
        })?;
        // First: without a file there is nothing to take, and none is to be made.
        Self::open(path)?;
        let file = ReportFile::open(path, Size::default(), owner)?;
        let report = Self::open(path)?;
        let over = report.records.iter().filter(|record| record.outcome != RecordOutcome::Ongoing);
        for record in over {
            file.ring().consume(record.slot, record.sequence);
        }
        report.torn.iter().for_each(|torn| file.ring().clear(torn.slot));
        Ok(report)
    }

    fn add_slot(&mut self, index: usize, bytes: &[u8], tail: &[u8]) {
        let slot = match slot::read(bytes, tail) {
            Ok(None) => return,
            Ok(Some(slot)) => slot,
            Err(what) => return self.torn.push(Torn { slot: index, what }),
        };
        let alive = slot.owner.is_alive();
        // Its writer is at work.
        if alive && slot.state == SlotState::Writing {
            return;
        }
        match decode(&slot, index, alive) {
            Some(record) => self.records.push(record),
            None => {
                let mut what = slot.faults.join("; ");
                if what.is_empty() {
                    what = "it does not say what it is about".into();
                }
                self.torn.push(Torn { slot: index, what });
            }
        }
    }

    /// Whether every record is complete.
    pub fn is_whole(&self) -> bool {
        self.torn.is_empty() && self.records.iter().all(|record| record.complete)
    }
}

fn open_file(path: &Path) -> Result<OwnedFd, FileError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NXIO) => Err(FileError::NotAFile(path.to_owned())),
        result => result.map_err(FileError::system(path, "open")),
    }
}

/// Copies as much of a slot as its header says, and its tail as its live cells say. One that changes meanwhile is copied again; one that keeps changing is
/// given up on as it is: its checksums will tell.
fn copy_slot(
    file: &OwnedFd,
    geometry: Geometry,
    index: usize,
    out: &mut Vec<u8>,
    tail: &mut Vec<u8>,
) -> Result<(), Errno> {
    let at = (FIRST_SLOT + index * geometry.stride) as u64;
    for _ in 0..3 {
        out.resize(PAYLOAD, 0);
        let read = read_at(file, out, at)?;
        out.truncate(read);
        let payload = slot::payload_bytes(out).min(geometry.stride - PAYLOAD);
        out.resize(PAYLOAD + payload, 0);
        let read = read_at(file, &mut out[PAYLOAD..], at + PAYLOAD as u64)?;
        out.truncate(PAYLOAD + read);
        tail.clear();
        let place = slot::tail_of(out);
        if let Some(range) = place.and_then(slot::Tail::range).filter(|range| range.end <= geometry.stride) {
            tail.resize(range.len(), 0);
            let read = read_at(file, tail, at + range.start as u64)?;
            tail.truncate(read);
        }
        let tail_is_right = place.is_none_or(|place| place.is_right(tail));
        let mut again = [0; 16];
        read_at(file, &mut again, at)?;
        if slot::stamp(&again) == slot::stamp(out) && tail_is_right {
            break;
        }
    }
    Ok(())
}

/// The count of dropped records, which is stored with its complement.
fn dropped(file: &OwnedFd) -> Result<Option<u32>, Errno> {
    let mut word = [0; 8];
    read_at(file, &mut word, (COUNTERS + offset_of!(Counters, dropped)) as u64)?;
    Ok(crate::ring::checked_count(u64::from_le_bytes(word)))
}
