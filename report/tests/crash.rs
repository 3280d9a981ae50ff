//! Records of crashes: what is written is what is read and shown.

mod common;

use common::{Folder, SEGMENTATION_FAULT, capture, crash_record, owner, record};
use freezeframe_report::encode::{Crash, Sender};
use freezeframe_report::file::{ReportFile, Size};
use freezeframe_report::layout::Outcome;
use freezeframe_report::read::{Record, RecordKind, RecordOutcome, RecordStrategy, Report, SenderInfo};
use freezeframe_report::ring::{Live, Owner, RingError};
use freezeframe_report::show::{TextOptions, list_line, to_json, write_text};

const SMALL: Size = Size { slots: 4, stride: 128 * 1024 };
const ROOM: usize = 100_000;

const ABORT: Crash<'_> = Crash {
    signal: 6,
    code: -6,
    address: None,
    sender: Some(Sender { pid: 77, uid: 1000 }),
    name: "SIGABRT",
    code_name: "SI_TKILL",
};

/// What is read of a crash that a process has left which has ended.
fn read_back(crash: Crash<'_>) -> Record {
    let captured = capture();
    let folder = Folder::new();
    let dead = Owner { start_ticks: 1, ..owner() };
    let file = ReportFile::open(&folder.path("r"), SMALL, dead).unwrap();
    file.ring().write_crash(&crash_record(&captured, 1, crash, ROOM)).unwrap();
    let mut report = Report::open(&folder.path("r")).unwrap();
    assert!(report.is_whole() && report.records.len() == 1);
    report.records.remove(0)
}

fn text(record: &Record) -> String {
    let mut text = Vec::new();
    write_text(&mut text, record, TextOptions::default()).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn a_crash_comes_back_with_its_signal_and_is_shown_by_it() {
    let record = read_back(SEGMENTATION_FAULT);
    assert_eq!(
        (record.kind, record.strategy, record.outcome),
        (RecordKind::Crash, RecordStrategy::Signal, RecordOutcome::Killed)
    );
    let crash = record.crash.as_ref().unwrap();
    assert_eq!((crash.signal, crash.code, crash.address, crash.sender), (11, 1, Some(0x1234), None));
    assert_eq!((crash.name.as_str(), crash.code_name.as_str()), ("SIGSEGV", "SEGV_MAPERR"));
    let line = list_line(&record);
    assert!(line.contains("  crashed    SIGSEGV, SEGV_MAPERR at 0x1234  name ["), "{line}");
    let text = text(&record);
    for expected in [
        "Exception Type:      SIGSEGV\n",
        "Exception Codes:     SEGV_MAPERR at 0x1234\n",
        "Crashed Thread:      0\n",
        "Thread 0 Crashed:\n",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("Threshold:") && !text.contains("Watcher:"), "{text}");
    let json = to_json(&record).unwrap();
    for expected in ["\"kind\": \"crash\"", "\"address\": \"0x1234\"", "\"code_name\": \"SEGV_MAPERR\""] {
        assert!(json.contains(expected), "{expected}");
    }
}

#[test]
fn a_signal_that_was_sent_says_by_whom_and_one_without_a_name_says_its_number() {
    let record = read_back(ABORT);
    let crash = record.crash.as_ref().unwrap();
    assert_eq!(
        (crash.code, crash.address, crash.sender),
        (-6, None, Some(SenderInfo { pid: 77, uid: 1000 }))
    );
    assert!(list_line(&record).contains("SIGABRT, SI_TKILL from process 77"), "{}", list_line(&record));
    assert!(to_json(&record).unwrap().contains("\"address\": null"));
    let record = read_back(Crash { code: 99, code_name: "", sender: None, ..ABORT });
    assert!(text(&record).contains("Exception Codes:     code 99\n"));
}

#[test]
fn a_crash_has_a_slot_of_its_own_and_takes_another_rather_than_an_unread_crashs() {
    let captured = capture();
    let folder = Folder::new();
    let path = folder.path("r");
    let file = ReportFile::open(&path, SMALL, owner()).unwrap();
    let freeze = |uuid| file.ring().write(&record(&captured, uuid, ROOM));
    let crash = |uuid| file.ring().write_crash(&crash_record(&captured, uuid, ABORT, ROOM));
    // Four slots: one for a crash, the reserve, and two. Freezes leave the first alone.
    let mut slots: Vec<_> = (1..=3).map(|n| freeze(n).unwrap()).collect();
    file.ring().update(&mut slots[2], Live::new(1, Outcome::Ongoing));
    assert_eq!(freeze(4).unwrap_err(), RingError::Full);
    assert_eq!(crash(5).unwrap().sequence(), 4);
    assert_eq!(crash(6).unwrap_err(), RingError::Full, "an unread record stays");
    let slots_of = |report: &Report| -> Vec<_> {
        report.records.iter().map(|record| (record.sequence, record.slot, record.kind)).collect()
    };
    let report = Report::open(&path).unwrap();
    let (freeze_kind, crash_kind) = (RecordKind::Freeze, RecordKind::Crash);
    assert_eq!(
        slots_of(&report),
        [(1, 2, freeze_kind), (2, 3, freeze_kind), (3, 1, freeze_kind), (4, 0, crash_kind)]
    );
    assert_eq!(report.dropped, Some(2));
    assert!(file.ring().consume(3, 2));
    assert_eq!(crash(7).unwrap().sequence(), 5);
    assert!(file.ring().consume(0, 4));
    assert_eq!(crash(8).unwrap().sequence(), 6);
    let slots = slots_of(&Report::open(&path).unwrap());
    assert_eq!(slots[2..], [(5, 3, crash_kind), (6, 0, crash_kind)]);
}
