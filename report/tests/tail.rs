//! What becomes known of a freeze while it lasts, in the file.

mod common;

use common::{Folder, about, capture, owner, record, tail};
use freezeframe_report::encode::{About, Crumb, Told, encode};
use freezeframe_report::file::{ReportFile, Size};
use freezeframe_report::layout::{FIRST_SLOT, LIVE_CELLS, Outcome};
use freezeframe_report::read::{CauseKind, Record, Report, SeverityLevel};
use freezeframe_report::ring::Live;
use freezeframe_report::show::{TextOptions, list_line, to_json, write_apple, write_text};
use std::os::unix::fs::FileExt;
use std::path::Path;

const SIZE: Size = Size { slots: 3, stride: 64 * 1024 };

fn only(path: &Path) -> Record {
    let mut records = Report::open(path).unwrap().records;
    assert_eq!(records.len(), 1);
    records.remove(0)
}

#[test]
fn a_tail_is_read_back_and_its_samples_are_folded_with_the_heaviest_stack_first() {
    let (captured, folder) = (capture(), Folder::new());
    let path = folder.path("r");
    let file = ReportFile::open(&path, SIZE, owner()).unwrap();
    let mut slot = file.ring().write(&record(&captured, 1, 40_000)).unwrap();
    assert!(file.ring().store_tail(&mut slot, &tail()));
    assert_eq!(only(&path).episode, None, "not before the next update");
    let live = Live { repeats: 3, repeated_ns: 900, ..Live::new(626, Outcome::Recovered) };
    file.ring().update(&mut slot, live);
    let record = only(&path);
    assert!(record.complete, "{:?}", record.faults);
    assert_eq!((record.repeats.count, record.repeats.duration_ns), (3, 900));
    let episode = record.episode.as_ref().unwrap();
    assert_eq!((episode.severity, episode.cause), (SeverityLevel::Severe, CauseKind::Lock));
    assert_eq!((&episode.labels[..], episode.depth), (&["nested", "background"][..], 2));
    assert_eq!((episode.cpu_ns, episode.window_ns, episode.expected.as_deref()), (11, 22, Some("a reason")));
    assert_eq!(episode.evidence[0].text, "in system call 202 (futex), first argument 0x55");
    assert_eq!(episode.evidence[1].text, "10 % of a processor (10 ms in 100 ms)");
    let samples = record.samples.as_ref().unwrap();
    assert_eq!((samples.moved, samples.left_out, samples.weight_ns()), (4, 5, 626));
    let order: Vec<_> = samples.samples.iter().map(|sample| sample.stack).collect();
    assert_eq!(order, [Some(1), Some(0), Some(0), None]);
    assert_eq!((samples.stacks[0].weight_ns, samples.stacks[0].count), (450, 2));
    let addresses = |stack: usize| -> Vec<_> { samples.stacks[stack].frames.iter().map(|f| f.pc).collect() };
    assert_eq!(addresses(0), [0x4002, 0x1000]);
    assert_eq!(addresses(1), [0x3001, 0x2000, 0x1000], "what is left out is no frame");
    assert_eq!(samples.samples[0].system_call, Some(202));
    let mut text = Vec::new();
    write_text(&mut text, &record, TextOptions::default()).unwrap();
    let text = String::from_utf8(text).unwrap();
    for line in [
        "Cause:               waiting for a lock\n",
        "Severity:            severe\n",
        "Labels:              nested, background\n",
        "Expected:            a reason\n",
        "Repeated:            3 times more with the same stack, 900 ns in all\n",
        "In time: BAA-\n",
        "A: 72 % (450 ns), 2 samples\n",
    ] {
        assert!(text.contains(line), "{line} is missing in {text}");
    }
    let mut apple = Vec::new();
    write_apple(&mut apple, &record).unwrap();
    assert!(String::from_utf8(apple).unwrap().contains("In time: BAA-"));
    assert!(list_line(&record).contains("(run-loop, waiting for a lock)"));
    assert!(to_json(&record).unwrap().contains("\"cause\": \"lock\""));
}

#[test]
fn a_writer_that_dies_while_it_writes_a_tail_leaves_the_one_before() {
    let (captured, folder) = (capture(), Folder::new());
    let path = folder.path("r");
    let file = ReportFile::open(&path, SIZE, owner()).unwrap();
    let mut slot = file.ring().write(&record(&captured, 1, 40_000)).unwrap();
    let (first, garbage) = (tail(), vec![0xee; 900]);
    for updates in 1..=5 {
        file.ring().store_tail(&mut slot, &first);
        file.ring().update(&mut slot, Live::new(updates, Outcome::Ongoing));
        // Again and again, and never named by a cell.
        file.ring().store_tail(&mut slot, &garbage);
        file.ring().store_tail(&mut slot, &garbage);
        let record = only(&path);
        assert!(record.complete && record.samples.is_some(), "{updates}: {:?}", record.faults);
        assert_eq!(record.duration_ns, updates);
        file.ring().store_tail(&mut slot, &first);
        file.ring().update(&mut slot, Live::new(updates, Outcome::Ongoing));
    }
    assert!(!file.ring().store_tail(&mut slot, &vec![1; 40_000]), "more than there is room for");
}

#[test]
fn a_tail_that_lies_elsewhere_or_is_damaged_is_a_fault_and_the_rest_stays() {
    let (captured, folder) = (capture(), Folder::new());
    let path = folder.path("r");
    let file = ReportFile::open(&path, SIZE, owner()).unwrap();
    let mut slot = file.ring().write(&record(&captured, 1, 40_000)).unwrap();
    file.ring().store_tail(&mut slot, &tail());
    file.ring().update(&mut slot, Live::new(5, Outcome::Recovered));
    let room = file.ring().tail_room(&slot) as u64;
    let slot_at = (FIRST_SLOT + 2 * SIZE.stride as usize) as u64;
    let tail_at = slot_at + u64::from(SIZE.stride) - 2 * room;
    let open = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut byte = [0];
    open.read_exact_at(&mut byte, tail_at + 40).unwrap();
    open.write_all_at(&[byte[0] ^ 4], tail_at + 40).unwrap();
    let damaged = only(&path);
    assert!(!damaged.complete && damaged.episode.is_none() && damaged.watched().is_some());
    assert!(damaged.faults.iter().any(|fault| fault.contains("later")), "{:?}", damaged.faults);
    open.write_all_at(&byte, tail_at + 40).unwrap();
    assert!(only(&path).complete);
    // A cell that is right by its checksum, and names a place outside of the slot.
    let cell_at = slot_at + LIVE_CELLS[1] as u64;
    let mut cell = [0; 64];
    let cell_at = [cell_at, slot_at + LIVE_CELLS[0] as u64]
        .into_iter()
        .find(|at| {
            open.read_exact_at(&mut cell, *at).unwrap();
            cell[0] == 1
        })
        .unwrap();
    cell[28..32].copy_from_slice(&u32::MAX.to_le_bytes());
    let crc = freezeframe_report::layout::crc(&[&cell[..60]]);
    cell[60..].copy_from_slice(&crc.to_le_bytes());
    open.write_all_at(&cell, cell_at).unwrap();
    let elsewhere = only(&path);
    assert!(!elsewhere.complete && elsewhere.samples.is_none() && elsewhere.duration_ns == 5);
}

#[test]
fn a_record_without_a_tail_is_complete_as_those_of_earlier_versions_are() {
    let (captured, folder) = (capture(), Folder::new());
    let path = folder.path("r");
    let file = ReportFile::open(&path, SIZE, owner()).unwrap();
    let mut slot = file.ring().write(&record(&captured, 1, 65_000)).unwrap();
    file.ring().update(&mut slot, Live::new(5, Outcome::Recovered));
    let record = only(&path);
    assert!(record.complete && record.episode.is_none() && record.samples.is_none() && record.told.is_none());
}

#[test]
fn what_the_program_told_is_read_back_in_its_order() {
    let (captured, folder) = (capture(), Folder::new());
    let path = folder.path("r");
    let file = ReportFile::open(&path, SIZE, owner()).unwrap();
    let crumb = |at_ns, text| Crumb { at_ns, component: "main", text };
    let told = Told {
        values: &[("user", "yes"), ("mode", "dark")],
        crumbs: &[crumb(1, "began"), crumb(2, "opened \u{1b}[31m")],
    };
    let mut bytes = vec![0; 60_000];
    let about = About { told, ..about(1) };
    let encoded = encode(&mut bytes, &about, &captured.snapshot.view(), &captured.images);
    file.ring().write(&bytes[..encoded.bytes]).unwrap();
    let record = only(&path);
    let told = record.told.as_ref().unwrap();
    assert_eq!(told.values, [("user".to_owned(), "yes".to_owned()), ("mode".to_owned(), "dark".to_owned())]);
    let crumbs: Vec<_> = told.breadcrumbs.iter().map(|c| (c.at_ns, c.component.as_str())).collect();
    assert_eq!(crumbs, [(1, "main"), (2, "main")]);
    let mut text = Vec::new();
    write_text(&mut text, &record, TextOptions::default()).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("Told:                mode = dark\n") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn a_tail_that_would_unfold_to_more_than_a_reader_can_hold_is_refused() {
    use freezeframe_report::encode::{Cause, Episode, NO_NODE, Node, Sample, Samples, Severity, encode_tail};
    let (captured, folder) = (capture(), Folder::new());
    let path = folder.path("r");
    let file = ReportFile::open(&path, Size { slots: 3, stride: 4 << 20 }, owner()).unwrap();
    let parent = |n: u16| n.checked_sub(1).unwrap_or(NO_NODE);
    let nodes: Vec<_> =
        (0..30_000).map(|n| Node { address: 1, parent: parent(n), origin: 2, trust: 3 }).collect();
    let sample =
        Sample { at_ns: 1, weight_ns: 1, cpu_ns: 0, node: 29_999, stack: 0, state: 1, system_call: u32::MAX };
    let samples: Vec<_> = (0..4000).map(|stack| Sample { stack, ..sample }).collect();
    let episode = Episode {
        severity: Severity::Freeze,
        cause: Cause::Unknown,
        labels: 0,
        depth: 0,
        cpu_ns: 0,
        window_ns: 0,
        expected: "",
        evidence: &[],
    };
    let mut bytes = vec![0; 1 << 20];
    let all = Samples { samples: &samples, nodes: &nodes, moved: 0, left_out: 0 };
    let length = encode_tail(&mut bytes, &episode, &all);
    let mut slot = file.ring().write(&record(&captured, 1, 40_000)).unwrap();
    assert!(file.ring().store_tail(&mut slot, &bytes[..length]));
    file.ring().update(&mut slot, Live::new(5, Outcome::Recovered));
    let record = only(&path);
    assert!(!record.complete && record.samples.is_none() && record.episode.is_some(), "{:?}", record.faults);
}
