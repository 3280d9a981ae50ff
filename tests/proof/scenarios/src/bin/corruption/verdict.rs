//! The parent: a child for each way of damaging memory.

use super::crashes::NOT_WITHOUT_PROC;
use freezeframe_report::read::{Record, RecordKind, Report, SetHow};
use freezeframe_report::show::Symbols;
use freezeframe_scenarios::{Child, Ended, Folder, Property};
use std::path::Path;
use std::time::Duration;

const CAPTURED: [[&str; 2]; 9] = [
    ["stack", "words"],
    ["stack", "words of one that runs"],
    ["stack", "cycles"],
    ["stack", "memory above"],
    ["stack", "memory below"],
    ["images", "unmapped"],
    ["images", "unreadable"],
    ["images", "garbage"],
    ["own", "words"],
];
const CRASHED: [[&str; 2]; 7] = [
    ["heap", "0"],
    ["heap", "65"],
    ["heap", "255"],
    ["heap", "random"],
    ["overflow", "guard"],
    ["proc", "another root"],
    ["proc", "another mount"],
];
const WITHIN: Duration = Duration::from_secs(90);

pub(crate) fn prove() -> bool {
    let captured = captured();
    let crashed = crashed();
    captured && crashed
}

fn captured() -> bool {
    let mut property = Property::new(
        "damaged memory ends a walk, never the program, and what is not the whole stack says so",
        "captures by every way of a thread whose return addresses, frame pointers (cycles too) and stack memory above and \
         below are others or gone, whose library was unmapped, lost its tables or has others; and words of the ring's own",
    );
    let (mut captures, mut marked) = (0, 0);
    for pair in CAPTURED.chunks(2) {
        let started: Vec<_> = pair.iter().map(start).collect();
        for (words, (_folder, child)) in pair.iter().zip(started) {
            let ended = child.end(WITHIN);
            property.expect(ended.is_well(), || format!("{words:?}: {:?}\n{}", ended.status, ended.output));
            captures += ended.count("captures");
            marked += ended.count("marked");
        }
    }
    property
        .conclude(&format!("{} scenarios, {captures} captures, {marked} marked as partial", CAPTURED.len()))
}

fn crashed() -> bool {
    let mut property = Property::new(
        "a program that dies of damaged memory leaves its report",
        "heaps overwritten to the last byte, with zeros, ones, letters, anything; a stack used up to its guard page; /proc \
         gone, where a freeze is reported too",
    );
    let (mut scenarios, mut left_out) = (0, String::new());
    for pair in CRASHED.chunks(3) {
        let started: Vec<_> = pair.iter().map(start).collect();
        for (words, (folder, child)) in pair.iter().zip(started) {
            let ended = child.end(WITHIN);
            if ended.status.and_then(|status| status.code()) == Some(NOT_WITHOUT_PROC) {
                left_out = format!("{left_out} (/proc by {}: not available here)", words[1]);
                continue;
            }
            scenarios += 1;
            if let Err(why) = judge(words, folder.path(), &ended) {
                property.expect(false, || format!("{words:?}: {why} {:?} {}", ended.status, ended.output));
            }
        }
    }
    property.conclude(&format!("{scenarios} programs, each with its record{left_out}"))
}

fn judge(words: &[&str; 2], folder: &Path, ended: &Ended) -> Result<(), String> {
    let must = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
    // An overflow ends in Rust's own handler, which aborts.
    let expected = if words[0] == "overflow" { libc::SIGABRT } else { libc::SIGSEGV };
    must(ended.signal() == Some(expected), "it did not die of what it did")?;
    let mut report = Report::open(&folder.join("r.ffr")).map_err(|error| error.to_string())?;
    must(report.is_whole(), &format!("its file is damaged: {:?}", report.torn))?;
    let mut symbols = Symbols::new();
    report.records.iter_mut().for_each(|record| symbols.name_frames(record));
    let mut crashes = report.records.iter().filter(|record| record.kind == RecordKind::Crash);
    let crash = crashes.next().ok_or("there is no record of the crash")?;
    must(
        crash.process.as_ref().is_some_and(|process| process.app == "corrupted"),
        "it does not say whose it is",
    )?;
    match words[0] {
        "heap" => {
            must(is_on(crash, 0, "crashes"), &told(crash, 0))?;
            let companion = crash.threads.iter().position(|thread| thread.name == "companion");
            let companion = companion.ok_or("the other thread is missing")?;
            must(is_on(crash, companion, "companion_waits"), &told(crash, companion))
        }
        "overflow" => {
            must(is_on(crash, 0, "recurses"), &told(crash, 0))?;
            must(crash.threads[0].omitted > 1000 && crash.threads[0].repeat.is_some(), &told(crash, 0))
        }
        _ => {
            must(is_on(crash, 0, "crashes"), &told(crash, 0))?;
            must(has_others_or_says_so(crash), "it has no other thread, and does not say so")?;
            let freeze = report.records.iter().find(|record| record.kind == RecordKind::Freeze);
            let freeze = freeze.ok_or("there is no record of the freeze")?;
            must(is_on(freeze, 0, "freezes"), &told(freeze, 0))?;
            must(has_others_or_says_so(freeze), "the freeze has no other thread, and does not say so")
        }
    }
}

/// The list of threads that was opened at the start is still one where `/proc` is gone by now.
fn has_others_or_says_so(record: &Record) -> bool {
    let complete = record.dropped.as_ref().is_some_and(|dropped| dropped.threads == 0);
    record.set.how == SetHow::NotTogether || record.threads.len() > 1 && complete
}

fn is_on(record: &Record, thread: usize, function: &str) -> bool {
    let frames = record.threads.get(thread).map_or(&[][..], |thread| &thread.frames);
    frames.iter().filter_map(|frame| frame.symbol.as_ref()).any(|symbol| symbol.name.contains(function))
}

fn told(record: &Record, thread: usize) -> String {
    let Some(thread) = record.threads.get(thread) else { return "it has no threads".into() };
    let names: Vec<_> =
        thread.frames.iter().take(20).map(|frame| frame.symbol.as_ref().map(|s| &s.name)).collect();
    format!("{:?} {:?} {} left out, {names:?}", thread.held, thread.stop, thread.omitted)
}

fn start(words: &[&str; 2]) -> (Folder, Child) {
    let folder = Folder::new(&std::env::temp_dir());
    let path = folder.path().to_string_lossy().into_owned();
    let child = Child::start(&[words[0], words[1], &path], &[]);
    (folder, child)
}
