//! What is written is what is read: real captures through the encoder, the ring and the reader.

mod common;

use common::{Captured, Folder, about, capture, owner, record};
use freezeframe_report::encode::encode;
use freezeframe_report::file::{FileError, ReportFile, Size};
use freezeframe_report::layout::{FIRST_SLOT, Outcome, SlotState};
use freezeframe_report::read::{HeldHow, RecordOutcome, RecordStrategy, Report, SetHow};
use freezeframe_report::ring::{Live, Owner, RingError};
use freezeframe_report::show::{Symbols, TextOptions, to_json, write_text};
use freezeframe_unwind::rule::FrameAddress;
use freezeframe_unwind::snapshot::Held;
use std::os::unix::fs::{FileExt, MetadataExt};

const SMALL: Size = Size { slots: 4, stride: 128 * 1024 };

#[test]
fn every_field_comes_back() {
    let captured = capture();
    let folder = Folder::new();
    let file = ReportFile::open(&folder.path("r"), SMALL, owner()).unwrap();
    let mut slot = file.ring().write(&record(&captured, 7, 100_000)).unwrap();
    file.ring().update(&mut slot, Live::new(444_000_000, Outcome::Ongoing));
    file.ring().update(&mut slot, Live::new(555_000_000, Outcome::Recovered));

    let report = Report::open(&folder.path("r")).unwrap();
    assert!(report.is_whole() && report.records.len() == 1 && report.dropped == Some(0));
    let record = &report.records[0];
    let view = captured.snapshot.view();
    assert_eq!(record.faults, [""; 0]);
    assert_eq!(record.uuid, "07070707-0707-0707-0707-070707070707");
    assert_eq!(
        (record.sequence, record.strategy, record.outcome),
        (1, RecordStrategy::RunLoop, RecordOutcome::Recovered)
    );
    assert_eq!((record.component.as_str(), record.last_activity), ("the component", Some("AfterWaiting")));
    assert_eq!((record.duration_ns, record.late_ticks, record.wakeups), (555_000_000, 3, 77));
    assert_eq!(record.times.wall, "2023-11-14T22:13:20.123456789Z");
    assert_eq!((record.times.started_ns, record.times.detected_ns), (10_000_000_000, 10_255_000_000));
    assert_eq!(record.times.detection_delay_ns, 4_000_000, "255 ms, of which one does not count, after 250");
    assert_eq!(
        (record.times.capture_started_ns, record.times.capture_ended_ns),
        (view.started_ns, view.ended_ns)
    );
    assert_eq!(record.times.continuous_ns, Some(99_255_000_000));
    assert_eq!((record.threshold.interval_ns, record.threshold.misses), (50_000_000, 5));
    assert_eq!(record.boot_id, "09090909-0909-0909-0909-090909090909");
    let process = record.process.as_ref().unwrap();
    assert_eq!((process.pid, process.parent, process.start_ticks), (std::process::id(), 42, 4711));
    assert_eq!(
        (process.name.as_str(), process.path.as_str(), process.parent_name.as_str()),
        ("name", "/the/path", "parent")
    );
    assert_eq!(
        (process.app.as_str(), process.version.as_str(), process.debugged),
        ("the.app", "1.2.3", true)
    );
    assert_eq!((process.app_state, process.translated), ("background", true));
    assert_eq!((process.cpu_ns, process.footprint_bytes), (Some(1_234_567_890), Some(45_678_592)));
    let system = record.system.as_ref().unwrap();
    assert_eq!((system.build.as_str(), system.memory_bytes), ("24D70", Some(8_589_934_592)));
    assert_eq!(
        (system.os.as_str(), system.kernel.as_str(), system.model.as_str()),
        ("an OS", "6.1", "a model")
    );
    assert_eq!((system.cores, system.page_bytes), (2, 4096));

    assert_eq!(record.threads.len(), view.threads.len());
    for (read, taken) in record.threads.iter().zip(view.threads) {
        assert_eq!(read.id, taken.thread.0 as u32);
        assert_eq!(read.name.as_bytes(), taken.facts.name.bytes());
        assert_eq!(
            (read.cpu_ns, read.copies, read.stack_end),
            (taken.facts.cpu_ns, taken.copies, taken.stack_end)
        );
        assert_eq!(read.main, read.id == std::process::id());
        // A thread of another test may have ended, or wait for the disk.
        let Some(registers) = taken.registers else {
            let Held::Not(error) = taken.held else { panic!("{taken:?}") };
            assert_eq!((read.held.how, &read.held.why_not), (HeldHow::Not, &Some(error.to_string())));
            assert!(read.registers.is_empty() && read.frames.is_empty() && read.stop.code == 0);
            continue;
        };
        let named = |name: &str| read.registers.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
        let (pc, sp, fp) =
            if cfg!(target_arch = "x86_64") { ("rip", "rsp", "rbp") } else { ("pc", "sp", "fp") };
        assert_eq!(named(pc), Some(registers.pc()));
        let peeked = taken.held == Held::Peek;
        assert_eq!((named(sp), peeked), (Some(registers.sp()), read.held.how == HeldHow::Peek));
        assert_eq!(named(fp), (!peeked).then_some(registers.fp()), "a peek does not know it");
        let not_better = taken.not_better.map(|error| error.to_string());
        assert_eq!(read.held.why_not, not_better.filter(|_| taken.held != Held::Itself));
        let frames = view.frames(taken);
        assert!(!frames.is_empty() && read.frames.len() == frames.len());
        for (read, taken) in read.frames.iter().zip(frames) {
            assert_eq!(
                (read.pc, read.sp, read.lookup),
                (taken.address.raw(), taken.sp, taken.address.lookup())
            );
            let origin = match taken.address {
                FrameAddress::InstructionPointer(_) => "instruction",
                FrameAddress::ReturnAddress(_) => "return",
                FrameAddress::SignalReturn(_) => "signal",
            };
            assert_eq!(read.origin, origin);
            let image = captured.images.find(taken.address.lookup()).map(|(_, image)| image);
            let found = record.image(read);
            assert_eq!(found.map(|image| image.load_address), image.map(|image| image.range.start));
        }
        assert_eq!((read.omitted, read.stop.code), (taken.summary.omitted, taken.summary.stop.code().0));
    }
    assert!(record.threads[0].watched && record.threads[0].held.how == HeldHow::Itself);
    assert_eq!(record.images.len(), captured.images.images().len());
    for image in &record.images {
        let loaded = captured.images.get(image.index as usize).unwrap();
        assert_eq!((image.load_address, image.slide), (loaded.range.start, loaded.slide));
        assert_eq!(image.size, loaded.range.end - loaded.range.start);
        assert_eq!(image.path.as_bytes(), captured.images.path(loaded));
        assert_eq!(image.build_id.len(), 2 * captured.images.build_id(loaded).len());
    }
}

/// Takes `less` bytes off the end of a section's body, as if its version did not have them yet, and adds `more`.
fn change(record: &mut Vec<u8>, section: u32, less: usize, more: &[u8]) {
    let word = |record: &[u8], at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
    let mut at = 0;
    while word(record, at) != section {
        at += 12 + word(record, at + 4) as usize;
    }
    let body = at + 12;
    let end = body + word(record, at + 4) as usize;
    record.splice(end - less..end, more.iter().copied());
    let length = end - less + more.len() - body;
    record[at + 4..at + 8].copy_from_slice(&(length as u32).to_le_bytes());
    let crc = freezeframe_report::layout::crc(&[&record[at..at + 8], &record[body..body + length]]);
    record[at + 8..at + 12].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn what_later_versions_add_is_passed_over() {
    let folder = Folder::new();
    let file = ReportFile::open(&folder.path("r"), SMALL, owner()).unwrap();
    let now = record(&capture(), 7, 100_000);
    let mut later = now.clone();
    (1..=6).for_each(|section| change(&mut later, section, 0, b"a field"));
    // A section of a type that there is not yet, before the last one.
    let mut section = [[77, 0, 0, 0], [4, 0, 0, 0], [0; 4]].concat();
    section.extend(b"body");
    let crc = freezeframe_report::layout::crc(&[&section[..8], b"body"]);
    section[8..12].copy_from_slice(&crc.to_le_bytes());
    let end = later.len() - (12 + 16 + "a field".len());
    later.splice(end..end, section);
    file.ring().write(&now).unwrap();
    file.ring().write(&later).unwrap();
    let report = Report::open(&folder.path("r")).unwrap();
    assert!(report.is_whole(), "{:?}", report.records[1].faults);
    let [now, later] = &report.records[..] else { panic!("two records") };
    let mut later = later.clone();
    (later.sequence, later.slot) = (now.sequence, now.slot);
    assert_eq!(*now, later);
}

#[test]
fn a_record_of_version_1_0_is_whole_and_what_came_later_is_unknown() {
    let folder = Folder::new();
    let file = ReportFile::open(&folder.path("r"), SMALL, owner()).unwrap();
    let mut older = record(&capture(), 7, 100_000);
    change(&mut older, 1, 8 + 10, &[]);
    change(&mut older, 2, 18, &[]);
    change(&mut older, 3, 2 + "24D70".len() + 8, &[]);
    file.ring().write(&older).unwrap();
    let report = Report::open(&folder.path("r")).unwrap();
    assert!(report.is_whole(), "{:?}", report.records[0].faults);
    let record = &report.records[0];
    let (process, system) = (record.process.as_ref().unwrap(), record.system.as_ref().unwrap());
    assert_eq!((record.component.as_str(), record.times.continuous_ns), ("the component", None));
    assert_eq!((record.set.how, &record.set.why_not), (SetHow::OneByOne, &None));
    assert_eq!((process.version.as_str(), process.app_state), ("1.2.3", "unknown"));
    assert_eq!((process.translated, process.cpu_ns, process.footprint_bytes), (false, None, None));
    assert_eq!((system.model.as_str(), system.build.as_str(), system.memory_bytes), ("a model", "", None));
    let mut text = Vec::new();
    write_text(&mut text, record, TextOptions::default()).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("OS Version:          an OS\n"), "{text}");
    assert!(
        ["App State", "CPU Time", "Memory:", "Uptime"].iter().all(|field| !text.contains(field)),
        "{text}"
    );
}

#[inline(never)]
fn the_function_that_captures() -> Captured {
    let captured = capture();
    std::hint::black_box(());
    captured
}

#[test]
fn functions_of_this_program_are_named_and_the_text_and_json_hold_them() {
    let captured = the_function_that_captures();
    let folder = Folder::new();
    let file = ReportFile::open(&folder.path("r"), SMALL, owner()).unwrap();
    file.ring().write(&record(&captured, 1, 100_000)).unwrap();
    let mut report = Report::open(&folder.path("r")).unwrap();
    Symbols::new().name_frames(&mut report.records[0]);
    let record = &report.records[0];
    let names: Vec<&str> =
        record.threads[0].frames.iter().filter_map(|f| f.symbol.as_ref()).map(|s| s.name.as_str()).collect();
    let this = "round_trip::the_function_that_captures";
    let place = |wanted: &str| names.iter().position(|name| *name == wanted);
    assert!(place("round_trip::common::capture") < place(this) && place(this).is_some(), "{names:#?}");

    let mut text = Vec::new();
    write_text(&mut text, record, TextOptions::default()).unwrap();
    let text = String::from_utf8(text).unwrap();
    for expected in [
        "Report Version:      104\n",
        "OS Version:          an OS (24D70)\n",
        "Kernel:              6.1\n",
        "(Translated)\n",
        "App State:           background\nDebugger:            attached\n",
        "CPU Time:            1.23 s in all threads\n",
        "Memory:              footprint 43.6 MiB, machine 8.00 GiB\n",
        "Uptime:              10.3 s, 89.0 s of sleep not counted\n",
        "Exception Type:      FREEZE\n",
        "Thread 0 Crashed:\n",
        "Binary Images:\n",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let frame = text.lines().find(|line| line.contains(&format!(" {this} + "))).unwrap();
    assert!(frame.contains("round_trip-") && frame.contains(" 0x0000"), "{frame}");
    assert_eq!(text.matches("Thread State:").count(), 1, "registers of the watched thread only");
    let json = to_json(record).unwrap();
    assert!(json.contains(this) && json.contains("\"outcome\": \"ongoing\""));
}

#[test]
fn unread_records_stay_and_the_reserve_takes_the_latest() {
    let captured = capture();
    let folder = Folder::new();
    let file = ReportFile::open(&folder.path("r"), SMALL, owner()).unwrap();
    let write = |uuid| file.ring().write(&record(&captured, uuid, 100_000));
    let read = || {
        let report = Report::open(&folder.path("r")).unwrap();
        assert!(report.is_whole());
        let ids: Vec<u64> = report.records.iter().map(|record| record.sequence).collect();
        (ids, report.dropped)
    };
    // Four slots: one for a crash, the reserve, and two.
    let mut slots: Vec<_> = (1..=3).map(|n| write(n).unwrap()).collect();
    assert_eq!(read(), (vec![1, 2, 3], Some(0)));
    file.ring().update(&mut slots[2], Live::new(1, Outcome::Ongoing));
    assert_eq!(write(4).unwrap_err(), RingError::Full, "the reserve's freeze still goes on");
    file.ring().update(&mut slots[2], Live::new(2, Outcome::Recovered));
    assert_eq!(write(5).unwrap().sequence(), 4);
    assert_eq!(read(), (vec![1, 2, 4], Some(2)), "one found no place, one gave way");

    let slot = Report::open(&folder.path("r")).unwrap().records[1].slot;
    assert!(!file.ring().consume(slot, 1), "another record's number");
    assert!(file.ring().consume(slot, 2));
    assert!(!file.ring().consume(slot, 2), "only once");
    assert_eq!(write(6).unwrap().sequence(), 5);
    assert_eq!(read(), (vec![1, 4, 5], Some(2)));
}

#[test]
fn a_record_of_a_dead_process_was_killed_in_the_middle() {
    let captured = capture();
    let folder = Folder::new();
    let dead = Owner { start_ticks: 1, ..owner() };
    let file = ReportFile::open(&folder.path("r"), SMALL, dead).unwrap();
    let mut slot = file.ring().write(&record(&captured, 1, 100_000)).unwrap();
    file.ring().update(&mut slot, Live::new(300_000_000, Outcome::Ongoing));
    file.ring().update(&mut slot, Live::new(350_000_000, Outcome::Ongoing));
    drop(file);
    // The next run adds to the file.
    let file = ReportFile::open(&folder.path("r"), SMALL, owner()).unwrap();
    let mut slot = file.ring().write(&record(&captured, 2, 100_000)).unwrap();
    file.ring().update(&mut slot, Live::new(260_000_000, Outcome::Ongoing));
    let records = Report::open(&folder.path("r")).unwrap().records;
    assert_eq!((records[0].outcome, records[0].duration_ns), (RecordOutcome::Killed, 350_000_000));
    assert_eq!((records[1].outcome, records[1].duration_ns), (RecordOutcome::Ongoing, 260_000_000));
}

#[test]
fn a_slot_whose_writer_died_before_anything_could_be_read_is_free_again() {
    let captured = capture();
    let folder = Folder::new();
    let (path, write) =
        (folder.path("r"), |file: &ReportFile| file.ring().write(&record(&captured, 1, 100_000)));
    drop(ReportFile::open(&path, SMALL, owner()).unwrap());
    // Slots 2 and 3 are those for any freeze. The state, as the claim leaves it.
    let raw = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    for slot in [2, 3] {
        let at = (FIRST_SLOT + slot * SMALL.stride as usize) as u64;
        raw.write_all_at(&(SlotState::Writing as u32).to_le_bytes(), at).unwrap();
    }
    let file = ReportFile::open(&path, SMALL, owner()).unwrap();
    let slots = || Report::open(&path).unwrap().records.iter().map(|record| record.slot).collect::<Vec<_>>();
    write(&file).unwrap();
    write(&file).unwrap();
    assert_eq!(slots(), [2, 3]);
    // One of which something can be read stays until it was.
    raw.write_all_at(
        &(SlotState::Writing as u32).to_le_bytes(),
        (FIRST_SLOT + 2 * SMALL.stride as usize) as u64,
    )
    .unwrap();
    drop(file);
    let file = ReportFile::open(&path, SMALL, owner()).unwrap();
    write(&file).unwrap();
    let free = u32::from_le_bytes(
        std::fs::read(&path).unwrap()[FIRST_SLOT + SMALL.stride as usize..][..4].try_into().unwrap(),
    );
    assert_eq!(free, SlotState::Committed as u32, "the reserve, since no other is free");
}

#[test]
fn what_a_writer_did_not_finish_stays_where_no_slot_is_free() {
    let captured = capture();
    let folder = Folder::new();
    let dead = Owner { start_ticks: 1, ..owner() };
    let file = ReportFile::open(&folder.path("r"), SMALL, dead).unwrap();
    (1..=3).for_each(|n| _ = file.ring().write(&record(&captured, n, 100_000)).unwrap());
    // The third one, in the reserve, as if its writer had died before the commit.
    let raw = std::fs::OpenOptions::new().write(true).open(folder.path("r")).unwrap();
    let reserve = (FIRST_SLOT + SMALL.stride as usize) as u64;
    raw.write_all_at(&(SlotState::Writing as u32).to_le_bytes(), reserve).unwrap();
    let threads =
        |report: &Report| report.records.iter().map(|record| record.threads.len()).collect::<Vec<_>>();
    drop(file);
    let file = ReportFile::open(&folder.path("r"), SMALL, dead).unwrap();
    let before = threads(&Report::open(&folder.path("r")).unwrap());
    assert_eq!(file.ring().write(&record(&captured, 4, 100_000)).unwrap_err(), RingError::Full);
    let report = Report::open(&folder.path("r")).unwrap();
    assert_eq!((threads(&report), report.records[2].complete), (before, false));
}

#[test]
fn whatever_the_room_a_record_keeps_what_matters_most_and_counts_the_rest() {
    let captured = capture();
    let view = captured.snapshot.view();
    let folder = Folder::new();
    let all_frames: u64 = view.threads.iter().map(|thread| thread.summary.kept as u64).sum();
    for room in (0..1_000).step_by(3).chain((1_000..4_000).step_by(97)).chain((4_000..60_000).step_by(1_999))
    {
        let mut bytes = vec![0; room];
        let encoded = encode(&mut bytes, &about(1), &view, &captured.images);
        assert!(encoded.bytes <= room);
        let path = folder.path("r");
        let file = ReportFile::open(&path, SMALL, owner()).unwrap();
        file.ring().write(&bytes[..encoded.bytes]).unwrap();
        drop(file);
        let report = Report::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let Some(record) = report.records.first() else {
            assert!(room < 500, "{room} bytes hold at least what happened");
            continue;
        };
        assert!(record.complete, "{room}: {:?}", record.faults);
        let dropped = record.dropped.unwrap();
        assert_eq!(record.threads.len() + dropped.threads as usize, view.threads.len(), "{room}");
        assert_eq!(record.images.len() + dropped.images as usize, captured.images.images().len(), "{room}");
        let kept: u64 = record.threads.iter().map(|thread| thread.frames.len() as u64).sum();
        if dropped.threads == 0 {
            assert_eq!(kept + dropped.frames, all_frames, "{room}");
        }
        for read in &record.threads {
            let taken = view.threads.iter().find(|taken| taken.thread.0 as u32 == read.id).unwrap();
            let total = taken.summary.kept as u64 + taken.summary.omitted;
            assert_eq!(read.frames.len() as u64 + read.omitted, total, "no frame goes uncounted");
        }
    }
}

#[test]
fn what_was_taken_is_gone_and_its_slots_are_free() {
    let captured = capture();
    let folder = Folder::new();
    let path = folder.path("r");
    assert!(Report::take(&path).is_err() && !path.exists(), "no file is made");
    let file = ReportFile::open(&path, SMALL, Owner { start_ticks: 1, ..owner() }).unwrap();
    for n in 1..=3 {
        file.ring().write(&record(&captured, n, 100_000)).unwrap();
    }
    assert!(matches!(Report::take(&path), Err(FileError::InUse(_))));
    drop(file);
    let taken: Vec<u64> = Report::take(&path).unwrap().records.iter().map(|record| record.sequence).collect();
    assert_eq!(taken, [1, 2, 3]);
    assert!(Report::take(&path).unwrap().records.is_empty());
    let file = ReportFile::open(&path, SMALL, owner()).unwrap();
    assert_eq!(file.ring().write(&record(&captured, 4, 100_000)).unwrap().sequence(), 4);
    assert_eq!(file.ring().dropped(), Some(0));
}

#[test]
fn holes_of_a_copied_file_are_filled_before_it_is_written_to() {
    let captured = capture();
    let folder = Folder::new();
    let path = folder.path("r");
    let file = ReportFile::open(&path, SMALL, owner()).unwrap();
    file.ring().write(&record(&captured, 1, 100_000)).unwrap();
    drop(file);
    let before = std::fs::read(&path).unwrap();
    let size = before.len() as u64;
    // The last slot is empty: cut off and lengthened again, it is a hole that reads the same.
    let sparse = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    sparse.set_len(size - u64::from(SMALL.stride)).unwrap();
    sparse.set_len(size).unwrap();
    if std::fs::metadata(&path).unwrap().blocks() * 512 >= size {
        println!("skipped: no holes can be made here");
        return;
    }
    drop(ReportFile::open(&path, SMALL, owner()).unwrap());
    assert!(std::fs::metadata(&path).unwrap().blocks() * 512 >= size);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_that_is_cut_off_or_deleted_while_it_is_open_is_noticed() {
    let folder = Folder::new();
    let path = folder.path("r");
    let file = ReportFile::open(&path, SMALL, owner()).unwrap();
    assert!(file.check().is_ok());
    std::fs::remove_file(&path).unwrap();
    assert!(file.check().unwrap_err().to_string().contains("deleted"));
    drop(file);
    let file = ReportFile::open(&path, SMALL, owner()).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(9000).unwrap();
    assert!(file.check().unwrap_err().to_string().contains("cut it off"));
}
