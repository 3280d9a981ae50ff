//! The form of Apple's crash reports, read again by a parser that servers use.

mod common;

use apple_crash_report_parser::AppleCrashReport;
use common::{Folder, SEGMENTATION_FAULT, about, capture, crash_record, owner};
use freezeframe_arch::Architecture;
use freezeframe_report::encode::encode;
use freezeframe_report::file::{ReportFile, Size};
use freezeframe_report::layout::Outcome;
use freezeframe_report::read::{Frame, HeldHow, Image, Record, Report};
use freezeframe_report::ring::Live;
use freezeframe_report::show::{Symbols, to_json, write_apple};
use freezeframe_unwind::images::{ImageTable, part_of_fat_file};
use freezeframe_unwind::memory::SliceMemory;

/// A record of this process, of these images or its own.
fn recorded(images: Option<&ImageTable>, outcome: Outcome) -> Record {
    let captured = capture();
    let folder = Folder::new();
    let file = ReportFile::open(&folder.path("r"), Size { slots: 3, stride: 1 << 18 }, owner()).unwrap();
    let mut bytes = vec![0; 200_000];
    let images = images.unwrap_or(&captured.images);
    let size = encode(&mut bytes, &about(0xab), &captured.snapshot.view(), images).bytes;
    let mut slot = file.ring().write(&bytes[..size]).unwrap();
    file.ring().update(&mut slot, Live::new(501_000_000, outcome));
    Report::open(&folder.path("r")).unwrap().records.remove(0)
}

fn text_of(record: &Record) -> String {
    let mut text = Vec::new();
    write_apple(&mut text, record).unwrap();
    String::from_utf8(text).unwrap()
}

fn parsed(record: &Record) -> AppleCrashReport {
    let text = text_of(record);
    text.parse().unwrap_or_else(|error| panic!("{error:?}\n{text}"))
}

/// What the parser found is what the record says.
fn compare(report: &AppleCrashReport, record: &Record) {
    assert_eq!(report.incident_identifier.to_string(), record.uuid);
    assert_eq!(report.report_version, 104);
    assert_eq!(report.threads.len(), record.threads.len());
    for (index, (read, thread)) in report.threads.iter().zip(&record.threads).enumerate() {
        assert_eq!((read.id, read.crashed), (index as u64, thread.watched));
        assert_eq!(read.frames.len(), thread.frames.len());
        for (read, frame) in read.frames.iter().zip(&thread.frames) {
            assert_eq!(read.instruction_addr.0, frame.address);
            assert_eq!(read.module.as_deref(), record.image(frame).map(Image::name));
            assert_eq!(read.symbol.as_deref(), frame.symbol.as_ref().map(|symbol| symbol.name.as_str()));
        }
        let registers = read.registers.as_ref().map_or(0, |registers| registers.len());
        assert_eq!(registers, if thread.watched { thread.registers.len() } else { 0 });
        for (name, value) in thread.registers.iter().filter(|_| thread.watched) {
            let name = if *name == "pstate" { "cpsr" } else { name };
            assert_eq!(read.registers.as_ref().unwrap()[name].0, *value, "{name}");
        }
    }
    let mut images: Vec<&Image> = record.images.iter().filter(|image| image.kind != "anonymous").collect();
    images.sort_by_key(|image| image.load_address);
    assert_eq!(report.binary_images.len(), images.len());
    for (read, image) in report.binary_images.iter().zip(images) {
        assert_eq!(
            (read.addr.0, read.size),
            (image.load_address, image.size - 1),
            "the end is the last byte"
        );
        assert_eq!((read.name.as_str(), read.path.as_str()), (image.name(), image.path.as_str()));
        assert_eq!(read.arch, image.architecture);
        let nil = "00000000-0000-0000-0000-000000000000";
        assert_eq!(read.uuid.to_string(), image.debug_id.as_deref().unwrap_or(nil));
    }
}

#[test]
fn a_record_of_this_process_comes_back_from_the_parser() {
    let mut record = recorded(None, Outcome::Recovered);
    Symbols::new().name_frames(&mut record);
    let named = record.threads[0].frames.iter().filter(|frame| frame.symbol.is_some()).count();
    assert!(named > 3 && record.images.len() > 2, "something to compare");
    let report = parsed(&record);
    compare(&report, &record);
    assert_eq!(report.timestamp.unwrap().to_rfc3339(), "2023-11-14T22:13:20.123+00:00");
    assert_eq!(report.path.as_deref(), Some("/the/path"));
    let code_type = if cfg!(target_arch = "x86_64") { "X86-64 (Translated)" } else { "ARM-64 (Translated)" };
    assert_eq!(report.code_type.as_deref(), Some(code_type));
    let threads = report.threads.iter().zip(&record.threads);
    assert!(
        threads
            .filter(|(_, thread)| !thread.name.is_empty())
            .all(|(read, thread)| read.name.as_deref() == Some(&thread.name))
    );
    for (name, value) in [
        ("Exception Type", "FREEZE"),
        ("Exception Codes", "501 ms, recovered"),
        ("Exception Note", "NON-FATAL CONDITION (this is NOT a crash)"),
        ("OS Version", "an OS (24D70)"),
        ("Hardware Model", "a model"),
        ("Identifier", "the.app"),
        ("Version", "1.2.3"),
        ("Parent Process", "parent [42]"),
    ] {
        assert_eq!(report.metadata[name], value, "{name}");
    }
    assert_eq!(report.metadata["Process"], format!("name [{}]", std::process::id()));
    let more = report.application_specific_information.unwrap();
    for line in
        ["Component:           the component", "Threshold:           5 timeouts of 50.0 ms in a row (250 ms)"]
    {
        assert!(more.lines().any(|found| found == line), "{line}: {more}");
    }
}

#[test]
fn a_freeze_that_the_process_did_not_survive_has_no_note_that_it_was_no_crash() {
    let mut record = recorded(None, Outcome::Ongoing);
    assert!(parsed(&record).metadata.contains_key("Exception Note"));
    record.outcome = freezeframe_report::read::RecordOutcome::Killed;
    let report = parsed(&record);
    assert!(!report.metadata.contains_key("Exception Note"));
    assert_eq!(report.metadata["Exception Codes"], "501 ms, the process ended in the middle of it");
}

#[test]
fn a_crash_comes_back_with_its_signal_and_no_note_that_it_was_none() {
    let folder = Folder::new();
    let file = ReportFile::open(&folder.path("r"), Size { slots: 3, stride: 1 << 18 }, owner()).unwrap();
    file.ring().write_crash(&crash_record(&capture(), 1, SEGMENTATION_FAULT, 200_000)).unwrap();
    let record = Report::open(&folder.path("r")).unwrap().records.remove(0);
    let report = parsed(&record);
    compare(&report, &record);
    assert_eq!(report.metadata["Exception Type"], "SIGSEGV");
    assert_eq!(report.metadata["Exception Codes"], "SEGV_MAPERR at 0x1234");
    assert!(!report.metadata.contains_key("Exception Note") && report.threads[0].crashed);
}

#[test]
fn hostile_and_missing_parts_leave_every_other_part_readable() {
    let mut record = recorded(None, Outcome::Recovered);
    let evil = "x\nThread 7 Crashed:\nBinary Images:\n\u{1b}[31m0   a 0x1 b\r";
    let clean = |text: &str| text.replace(char::is_control, "\u{fffd}");
    record.component = evil.into();
    record.faults = vec![evil.into()];
    record.threads[0].name = evil.into();
    let frame = &mut record.threads[0].frames[0];
    frame.symbol = Some(freezeframe_report::read::Symbol { name: evil.into(), offset: 3 });
    if let Some(process) = &mut record.process {
        (process.name, process.path, process.app) = (evil.into(), evil.into(), evil.into());
    }
    // Frames left out, an image without path and id that ends beyond all memory, a thread without a stack.
    (record.threads[0].omitted_after, record.threads[0].omitted) = (2, 300);
    let mut nothing = record.threads[0].clone();
    nothing.watched = false;
    nothing.frames.clear();
    nothing.registers.clear();
    nothing.name.clear();
    nothing.held.how = HeldHow::Not;
    record.threads.push(nothing);
    let image = &mut record.images[0];
    (image.path, image.debug_id, image.size) = (String::new(), None, u64::MAX);
    let report = parsed(&record);
    assert_eq!(
        (report.threads.len(), report.binary_images.len()),
        (record.threads.len(), { record.images.iter().filter(|image| image.kind != "anonymous").count() })
    );
    assert_eq!(report.threads.iter().filter(|thread| thread.crashed).count(), 1);
    assert_eq!(report.threads[0].frames.len(), record.threads[0].frames.len());
    assert_eq!(report.threads[0].frames[0].symbol, Some(clean(evil)));
    assert_eq!(report.threads[0].name, Some(clean(evil)));
    assert_eq!(report.path, Some(clean(evil)));
    assert!(report.threads.last().unwrap().frames.is_empty());
    let more = report.application_specific_information.unwrap();
    assert!(more.contains("thread 0: 300 frames left out behind 2"), "{more}");
    let text = text_of(&record);
    let frames = text.split("Thread 0 Crashed:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let numbers: Vec<&str> = frames.lines().map(|line| line.split(' ').next().unwrap()).take(4).collect();
    assert_eq!(numbers, ["0", "1", "302", "303"], "the gap shows");
    assert!(!text.contains('\u{1b}') && !text.contains('\r'));
}

const LOADED: u64 = 0x1_8000_0000;

#[test]
fn mach_o_images_keep_their_uuid_their_variant_and_the_size_of_their_text() {
    let file =
        std::fs::read(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/functions.dylib"))
            .unwrap();
    let architecture = if cfg!(target_arch = "x86_64") { Architecture::X86_64 } else { Architecture::Arm64 };
    let plain = part_of_fat_file(&file, architecture).unwrap().to_vec();
    let mut special = plain.clone();
    // The subtype arm64e or x86_64h, and the flag of the shared cache.
    special[8] = if cfg!(target_arch = "x86_64") { 8 } else { 2 };
    special[27] |= 0x80;
    let mut table = Box::new(ImageTable::new());
    table.add(&mut SliceMemory::new(LOADED, &plain), LOADED, b"/usr/lib/plain.dylib").unwrap();
    let second = LOADED + 0x10_0000;
    table.add(&mut SliceMemory::new(second, &special), second, b"/usr/lib/special.dylib").unwrap();
    let mut record = recorded(Some(&table), Outcome::Recovered);
    let (usual, variant, id, text) = match architecture {
        Architecture::X86_64 => ("x86_64", "x86_64h", X86_64_UUID, 0x2000),
        Architecture::Arm64 => ("arm64", "arm64e", ARM64_UUID, 0x4000),
    };
    assert_eq!(record.images.iter().map(|image| image.architecture).collect::<Vec<_>>(), [usual, variant]);
    assert_eq!(record.images.iter().map(|image| image.in_shared_cache).collect::<Vec<_>>(), [false, true]);
    for image in &record.images {
        assert_eq!((image.kind, image.size), ("mach-o", text));
        assert_eq!(image.debug_id.as_deref(), Some(id));
        assert_eq!(image.build_id, id.replace('-', ""));
    }
    let at = |address, index| Frame {
        address,
        lookup: address - 1,
        image: Some(index),
        ..record.threads[0].frames[0].clone()
    };
    let frames = vec![at(LOADED + 0x564, 0), at(second + 0x700, 1)];
    record.threads[0].frames = frames;
    let report = parsed(&record);
    compare(&report, &record);
    let json = to_json(&record).unwrap();
    for field in [
        format!("\"architecture\": \"{variant}\""),
        format!("\"debug_id\": \"{id}\""),
        "\"in_shared_cache\": true".into(),
    ] {
        assert!(json.contains(&field), "{field}");
    }
    let text = text_of(&record);
    let line = format!(
        "       0x180100000 - {:#18x}  special.dylib {variant}  <{}> /usr/lib/special.dylib\n",
        second + record.images[1].size - 1,
        id.replace('-', "")
    );
    assert!(text.contains(&line), "{line}{text}");
}

/// What `llvm-objdump --private-headers` says of `functions.dylib`.
const ARM64_UUID: &str = "4c4c4472-5555-3144-a19a-29fa288c2179";
const X86_64_UUID: &str = "4c4c44ae-5555-3144-a1b1-07c9081ef130";
