//! How a process and its machine were: what is written is what is read and shown.

mod common;

use common::{Folder, about, capture, owner};
use freezeframe_report::encode::{
    About, AvailableMemory, CpuShare, MemoryOf, MemoryPressure, OpenFiles, PressureLevel, ProcessMemory,
    Vitals, encode,
};
use freezeframe_report::file::{ReportFile, Size};
use freezeframe_report::read::{Record, Report};
use freezeframe_report::show::{TextOptions, to_json, write_text};

const MB: u64 = 1 << 20;

fn read_back(vitals: Vitals) -> (Record, String) {
    let captured = capture();
    let folder = Folder::new();
    let size = Size { slots: 3, stride: 128 * 1024 };
    let file = ReportFile::open(&folder.path("r"), size, owner()).unwrap();
    let mut bytes = vec![0; 100_000];
    let about = About { vitals: Some(vitals), ..about(1) };
    let encoded = encode(&mut bytes, &about, &captured.snapshot.view(), &captured.images);
    file.ring().write(&bytes[..encoded.bytes]).unwrap();
    let mut report = Report::open(&folder.path("r")).unwrap();
    assert!(report.is_whole(), "{:?}", report.records[0].faults);
    let record = report.records.remove(0);
    let mut text = Vec::new();
    write_text(&mut text, &record, TextOptions::default()).unwrap();
    (record, String::from_utf8(text).unwrap())
}

#[test]
fn every_vital_comes_back() {
    let (record, text) = read_back(Vitals {
        cpu: Some(CpuShare { cpu_ns: 150_000_000, window_ns: 100_000_000 }),
        process: Some(ProcessMemory { footprint_bytes: 20 * MB, resident_bytes: 45 * MB }),
        memory: Some(AvailableMemory {
            of: MemoryOf::Limit,
            total_bytes: 512 * MB,
            available_bytes: 64 * MB,
        }),
        pressure: Some(MemoryPressure {
            level: Some(PressureLevel::Warning),
            some_centi: Some(1234),
            full_centi: Some(5),
        }),
        files: Some(OpenFiles { open: 57, limit: Some(1024) }),
        frames_centi: Some(5950),
    });
    let vitals = record.vitals.as_ref().unwrap();
    let cpu = vitals.cpu.unwrap();
    assert_eq!((cpu.cpu_ns, cpu.window_ns, cpu.percent), (150_000_000, 100_000_000, 150.0));
    assert_eq!((vitals.footprint_bytes, vitals.resident_bytes), (Some(20 * MB), Some(45 * MB)));
    let memory = vitals.memory.unwrap();
    assert_eq!((memory.of, memory.total_bytes, memory.available_bytes), ("limit", 512 * MB, 64 * MB));
    let pressure = vitals.pressure.unwrap();
    assert_eq!(
        (pressure.level, pressure.some_percent, pressure.full_percent),
        (Some("warning"), Some(12.34), Some(0.05))
    );
    assert_eq!((vitals.open_files, vitals.open_files_limit), (Some(57), Some(1024)));
    assert_eq!(vitals.frames_per_second, Some(59.5));
    for line in [
        "CPU Share:           150 % of one processor, for 100 ms\n",
        "Memory:              footprint 20.0 MiB, resident 45.0 MiB\n",
        "Memory Left:         64.0 MiB of 512 MiB (limit)\n",
        "Memory Pressure:     warning, some task waited 12.34 % of 10 s, all waited 0.05 % of 10 s\n",
        "Open Files:          57 of 1024\n",
        "Frames:              59.5 in the second before\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let json = to_json(&record).unwrap();
    for part in ["\"of\": \"limit\"", "\"some_percent\": 12.34", "\"open_files\": 57"] {
        assert!(json.contains(part), "{part}: {json}");
    }
}

#[test]
fn what_is_not_known_is_none_and_not_shown() {
    let (record, text) = read_back(Vitals::default());
    let vitals = record.vitals.as_ref().unwrap();
    assert_eq!((vitals.cpu, vitals.footprint_bytes, vitals.resident_bytes), (None, None, None));
    assert_eq!((vitals.memory, vitals.pressure), (None, None));
    assert_eq!((vitals.open_files, vitals.open_files_limit, vitals.frames_per_second), (None, None, None));
    for word in ["CPU Share", "Memory", "Open Files", "Frames:"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
}

#[test]
fn a_level_alone_is_a_pressure_and_as_many_files_as_one_likes_have_no_limit() {
    let level = Some(PressureLevel::Critical);
    let (record, text) = read_back(Vitals {
        pressure: Some(MemoryPressure { level, ..MemoryPressure::default() }),
        files: Some(OpenFiles { open: 3, limit: None }),
        ..Vitals::default()
    });
    let vitals = record.vitals.as_ref().unwrap();
    assert_eq!(vitals.pressure.unwrap().level, Some("critical"));
    assert_eq!(vitals.pressure.unwrap().some_percent, None);
    assert!(text.contains("Memory Pressure:     critical\n") && text.contains("Open Files:          3\n"));
}
