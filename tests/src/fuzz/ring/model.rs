//! What a reader must see.

use super::{SLOTS, STRIDE, Store};
use freezeframe_report::layout::{FIRST_SLOT, Outcome, PAYLOAD, RESERVE_SLOT, SECTION_HEADER, crc};
use freezeframe_report::read::{Record, RecordOutcome, Report};
use std::collections::BTreeMap;

/// A record that was written, by its number in the file.
struct Written {
    payload: Vec<u8>,
    process: u32,
    fate: Fate,
    /// The newest note of its duration, and the one that its writer died at.
    noted: Option<(u64, Outcome)>,
    noting: Option<(u64, Outcome)>,
}

/// What is known of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Committed: it is there, whole.
    Whole { slot: usize },
    /// Its writer died, and this much was there of it then.
    Part { slot: usize, bytes: usize },
    /// Its writer has died just now: how far it came is still to be seen.
    Unseen,
    /// Its reader has died just now.
    BeingRead { slot: usize },
    /// Read, or never there.
    Gone,
}

#[derive(Default)]
pub(super) struct Model {
    written: BTreeMap<u64, Written>,
    /// The record that was written last, if that was the last step.
    latest: Option<u64>,
    /// A record was written, or was to be written.
    writing: bool,
}

/// A record of some sections: what it is about, threads, and the end.
pub(super) fn payload(number: u8) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut section = |kind: u32, length: usize| {
        // Fields are zero, and behind them stands something that is of a later version.
        let mut body = vec![0; length];
        body.extend((0..number).map(|n| n.wrapping_mul(number) | 1));
        let head = [kind.to_le_bytes(), (body.len() as u32).to_le_bytes()].concat();
        payload.extend([&head[..], &crc(&[&head, &body]).to_le_bytes(), &body].concat());
    };
    section(1, 240);
    (0..number % 5).for_each(|_| section(4, 240));
    section(6, 16);
    payload
}

impl Model {
    pub(super) fn written(&mut self, sequence: Option<u64>, payload: Vec<u8>, process: u32, died: bool) {
        self.writing = true;
        self.latest = sequence;
        let Some(sequence) = sequence else { return };
        // Which slot it has got is still to be seen, too.
        let fate = if died { Fate::Unseen } else { Fate::Whole { slot: usize::MAX } };
        let written = Written { payload, process, fate, noted: None, noting: None };
        let before = self.written.insert(sequence, written);
        assert!(
            before.is_none_or(|before| matches!(before.fate, Fate::Gone)),
            "the number {sequence} was given twice"
        );
    }

    pub(super) fn updated(&mut self, sequence: u64, note: (u64, Outcome), died: bool) {
        let written = self.written.get_mut(&sequence).expect("only what was written is noted");
        match died {
            true => written.noting = Some(note),
            false => written.noted = Some(note),
        }
    }

    pub(super) fn consumed(&mut self, sequence: u64, died: bool) {
        let written = self.written.get_mut(&sequence).expect("only what was written is read");
        let slot = written.slot();
        written.fate = if died { Fate::BeingRead { slot } } else { Fate::Gone };
    }

    /// A record that a reader can see: its slot and its number.
    pub(super) fn some_record(&self, number: u8) -> Option<(usize, u64)> {
        let there: Vec<_> = self.written.iter().filter(|(_, written)| written.is_there()).collect();
        let (sequence, written) = there.get(usize::from(number) % there.len().max(1))?;
        Some((written.slot(), **sequence))
    }

    /// Compares all of a file with what must be there.
    pub(super) fn check(&mut self, store: &Store) {
        let report = Report::open(&store.path).expect("the file stays a report file");
        assert!(report.torn.is_empty(), "{:?}", report.torn);
        assert!(report.dropped.is_some(), "the count of dropped records stays whole");
        let bytes = store.bytes();
        let gives_way = self.makes_room(&report);
        for record in &report.records {
            let written = self.written.get_mut(&record.sequence).expect("only what was written is there");
            let payload = &bytes[FIRST_SLOT + record.slot * STRIDE..][..STRIDE][PAYLOAD..];
            written.see(record, payload, gives_way && record.slot == RESERVE_SLOT);
        }
        self.check_missing(&report);
        (self.writing, self.latest) = (false, None);
    }

    /// Whether a record was to be written for which there was no other room than that of the one in the reserve.
    fn makes_room(&self, report: &Report) -> bool {
        let general = report.records.iter().filter(|record| record.slot > RESERVE_SLOT).count();
        self.writing && general == SLOTS - RESERVE_SLOT - 1
    }

    /// What is not there was read, or had not come far, or has made room.
    fn check_missing(&mut self, report: &Report) {
        let there = |sequence: u64| report.records.iter().any(|record| record.sequence == sequence);
        let makes_room = self.makes_room(report);
        for (sequence, written) in self.written.iter_mut().filter(|(sequence, _)| !there(**sequence)) {
            match written.fate {
                Fate::Gone => {}
                Fate::Unseen | Fate::BeingRead { .. } => written.fate = Fate::Gone,
                Fate::Whole { slot } | Fate::Part { slot, .. } => {
                    let gave_way = makes_room && slot == RESERVE_SLOT;
                    assert!(gave_way, "record {sequence} is lost: {:?}", written.fate);
                    written.fate = Fate::Gone;
                }
            }
        }
    }
}

impl Written {
    fn slot(&self) -> usize {
        match self.fate {
            Fate::Whole { slot } | Fate::Part { slot, .. } | Fate::BeingRead { slot } => slot,
            Fate::Unseen | Fate::Gone => usize::MAX,
        }
    }

    fn is_there(&self) -> bool {
        matches!(self.fate, Fate::Whole { .. } | Fate::Part { .. })
    }

    /// A reader has found this record. One that gives way may not be whole any more, and says so.
    fn see(&mut self, record: &Record, payload: &[u8], gives_way: bool) {
        let there = if record.faults.iter().any(|fault| fault.contains("did not finish")) {
            let bytes =
                self.prefix(payload, 1 + record.threads.len() + usize::from(record.dropped.is_some()));
            assert!(!record.complete);
            let damaged = record.faults.iter().find(|fault| fault.contains("damaged"));
            assert!(damaged.is_none(), "what counts as written is there: {damaged:?}");
            Fate::Part { slot: record.slot, bytes }
        } else {
            assert_eq!(&payload[..self.payload.len()], self.payload, "bit for bit");
            assert!(record.complete || self.noting.is_some(), "{:?}", record.faults);
            Fate::Whole { slot: record.slot }
        };
        let expected = match self.fate {
            Fate::Unseen | Fate::Whole { slot: usize::MAX } => there,
            Fate::BeingRead { slot } if slot == record.slot => there,
            Fate::Whole { slot } if slot == record.slot && gives_way => there,
            fate => fate,
        };
        let whole = matches!(self.fate, Fate::Whole { .. }) && !gives_way;
        assert!(
            expected == there && (!whole || matches!(there, Fate::Whole { .. })),
            "{there:?}, not {expected:?}"
        );
        self.fate = there;
        self.check_note(record);
    }

    /// How many bytes the first `sections` of the record have, which must all be right.
    fn prefix(&self, payload: &[u8], sections: usize) -> usize {
        let mut bytes = 0;
        for _ in 0..sections {
            let length = self.payload[bytes + 4..][..4].try_into().expect("four bytes");
            bytes += SECTION_HEADER + u32::from_le_bytes(length) as usize;
        }
        assert_eq!(payload[..bytes], self.payload[..bytes], "bit for bit");
        bytes
    }

    fn check_note(&mut self, record: &Record) {
        let outcome = |outcome| match outcome {
            Outcome::Recovered => RecordOutcome::Recovered,
            Outcome::Unknown => RecordOutcome::Unknown,
            // Its process is not alive.
            Outcome::Ongoing => RecordOutcome::Killed,
        };
        let seen = (record.duration_ns, record.outcome);
        let note =
            |note: Option<(u64, Outcome)>| note.map_or((0, RecordOutcome::Killed), |(d, o)| (d, outcome(o)));
        let died_noting = self.noting.is_some_and(|noting| note(Some(noting)) == seen);
        assert!(
            note(self.noted) == seen || died_noting,
            "process {}: {seen:?}, not {:?}",
            self.process,
            self.noted
        );
    }
}
