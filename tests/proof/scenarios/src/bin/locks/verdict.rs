//! The parent: starts a child for each place, and reads what it leaves.

use super::parks::known_function;
use super::program::{FORK_HANGS, HANDLER_HANGS, NO_MONITOR, NO_USERFAULTFD, NOT_HELD};
use freezeframe_report::read::{Record, RecordKind, Report};
use freezeframe_report::show::Symbols;
use freezeframe_scenarios::{Child, Ended, Folder, Property};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Where a thread parks, and whether it waits in the kernel or runs there.
const SCENARIOS: [(&str, &str); 15] = [
    ("dl_iterate_phdr", "waits"),
    ("dl_iterate_phdr", "runs"),
    ("malloc, a signal", "waits"),
    ("malloc, a signal", "runs"),
    ("malloc, userfaultfd", "waits"),
    ("flockfile(stdout)", "waits"),
    ("flockfile(stderr)", "runs"),
    ("Rust's stdout", "waits"),
    ("dlopen", "waits"),
    ("dlopen", "runs"),
    ("vfork", "waits"),
    ("a session", "waits"),
    ("a held thread", "waits"),
    ("a slot", "waits"),
    ("a slot", "runs"),
];
const WAYS: [&str; 6] = ["peek", "signal", "ptrace", "together", "best", "handler"];
/// Children at a time.
const TOGETHER: usize = 3;
/// A capture waits 100 ms for the first thread, 500 ms for all, as much again for what is known of them, 800 ms for
/// another's session, and a second for a helper that the kernel keeps.
const WITHIN_NS: u64 = 5_000_000_000;

pub(crate) fn prove() -> bool {
    let mut property = Property::new(
        "a capture waits for no lock that others hold, and has the stack of who holds it",
        "threads parked with the lock of the loader (dl_iterate_phdr, dlopen), the allocator, a stream, our session, a slot \
         of the file, and in vfork; captures by peek, signal, ptrace, all together, from a handler, in a forked child, by \
         two monitors, by the crash reporter",
    );
    let folder = Folder::new(&std::env::temp_dir());
    let built = build(folder.path());
    property.expect(built.is_ok(), || format!("the libraries could not be built: {built:?}"));
    let (mut captures, mut stacks, mut scenarios, mut left_out) = (0, 0, 0, "");
    for group in SCENARIOS.chunks(TOGETHER) {
        let started: Vec<_> = group.iter().map(|(place, rest)| start(folder.path(), place, rest)).collect();
        for ((place, rest), (own, child)) in group.iter().zip(started) {
            let ended = child.end(Duration::from_secs(60));
            if code(&ended) == Some(NO_USERFAULTFD) {
                left_out = " (userfaultfd: not available here)";
                continue;
            }
            scenarios += 1;
            let name = format!("{place}, {rest}");
            property.expect(ended.signal() == Some(libc::SIGSEGV), || format!("{name}: {}", why(&ended)));
            let records = all_records(&own);
            let forked = one(&records, "forked", |record| record.component == "forked");
            let on_stack = |record: &Record, thread: &str, function: &str| {
                let mut threads = record.threads.iter().filter(|one| one.name == thread);
                threads.any(|one| has(one, function))
            };
            property.expect(
                forked.as_ref().is_ok_and(|record| {
                    record.threads.iter().any(|one| has(one, "captures_in_a_forked_child"))
                }),
                || format!("{name}: in a forked child: {:?}", forked.as_ref().map(|record| &record.threads)),
            );
            let named = WAYS
                .iter()
                .chain(&["monitor", "second"])
                .map(|way| (*way, one(&records, way, |record| record.component == *way)));
            let crash = ("crash", one(&records, "crash", |record| record.kind == RecordKind::Crash));
            captures += 1;
            for (way, record) in named.chain([crash]) {
                captures += 1;
                let record = match record {
                    Ok(record) => record,
                    Err(why) => {
                        property.expect(false, || format!("{name}: by {way}: {why}"));
                        continue;
                    }
                };
                let took = record.times.capture_ended_ns.saturating_sub(record.times.capture_started_ns);
                property.expect(took < WITHIN_NS, || format!("{name}: by {way} it took {took} ns"));
                property.expect(record.complete, || format!("{name}: by {way}: {:?}", record.faults));
                let found = on_stack(record, "parked", known_function(place));
                let refused = may_be_refused(place, rest, way) && is_refused(record);
                stacks += u64::from(found);
                property.expect(found || refused, || format!("{name}: by {way}: {}", told(record)));
            }
        }
    }
    property.conclude(&format!(
        "{scenarios} scenarios, {captures} captures, {stacks} with the stack of who holds the lock, the others by ways that \
         say why they cannot{left_out}"
    ))
}

/// A way may say that it cannot read such a thread. All together, the best way never may.
fn may_be_refused(place: &str, rest: &str, way: &str) -> bool {
    match (place, way) {
        (_, "peek") => rest == "runs",
        ("vfork" | "a session" | "a held thread", "signal" | "ptrace") => true,
        _ => false,
    }
}

fn is_refused(record: &Record) -> bool {
    let mut parked = record.threads.iter().filter(|thread| thread.name == "parked");
    parked.any(|thread| thread.frames.is_empty() && thread.held.why_not.is_some())
}

fn told(record: &Record) -> String {
    let parked = record.threads.iter().find(|thread| thread.name == "parked");
    let Some(thread) = parked else { return "the thread is missing".into() };
    let names: Vec<_> =
        thread.frames.iter().map(|frame| frame.symbol.as_ref().map(|symbol| &symbol.name)).collect();
    format!("{:?} {:?} {:?} {names:?}", thread.state, thread.held, thread.stop)
}

fn has(thread: &freezeframe_report::read::Thread, function: &str) -> bool {
    let mut symbols = thread.frames.iter().filter_map(|frame| frame.symbol.as_ref());
    symbols.any(|symbol| symbol.name.contains(function))
}

fn one<'a>(records: &'a [Record], what: &str, is: impl Fn(&Record) -> bool) -> Result<&'a Record, String> {
    let mut found = records.iter().filter(|record| is(record));
    match (found.next(), found.next()) {
        (Some(record), None) => Ok(record),
        (None, _) => Err(format!("there is no record of {what}")),
        _ => Err(format!("there are several records of {what}")),
    }
}

fn all_records(folder: &Path) -> Vec<Record> {
    let mut records = Vec::new();
    let mut symbols = Symbols::new();
    for file in ["captures.ffr", "forked.ffr", "monitor.ffr"] {
        if let Ok(report) = Report::open(&folder.join(file)) {
            records.extend(report.records);
        }
    }
    records.iter_mut().for_each(|record| symbols.name_frames(record));
    records
}

fn start(libraries: &Path, place: &str, rest: &str) -> (std::path::PathBuf, Child) {
    let own = libraries.join(format!("{place}-{rest}").replace(['(', ')', ' ', ',', '\''], "-"));
    std::fs::create_dir_all(&own).expect("a folder");
    for library in ["libparks.so", "libvforks.so"] {
        let _ = std::os::unix::fs::symlink(libraries.join(library), own.join(library));
    }
    // Every thread shares the one heap: what one holds, all wait for.
    let variables = [("GLIBC_TUNABLES", "glibc.malloc.arena_max=1"), ("MALLOC_ARENA_MAX", "1")];
    let child = Child::start(&[place, rest, &own.to_string_lossy()], &variables);
    (own, child)
}

fn build(folder: &Path) -> Result<(), String> {
    let source = folder.join("parks.c");
    std::fs::write(&source, include_str!("parks.c")).map_err(|error| error.to_string())?;
    for library in ["libparks.so", "libvforks.so"] {
        let mut command = Command::new("cc");
        command
            .args(["-shared", "-fPIC", "-O1", "-Wl,--build-id", "-o"])
            .arg(folder.join(library))
            .arg(&source);
        let output = command.output().map_err(|error| format!("cc: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
    }
    Ok(())
}

fn code(ended: &Ended) -> Option<i32> {
    ended.status.and_then(|status| status.code())
}

fn why(ended: &Ended) -> String {
    match code(ended) {
        Some(NOT_HELD) => "another thread got the lock, which should be held".into(),
        Some(NO_MONITOR) => "the monitors have written no records".into(),
        Some(FORK_HANGS) => "the capture in a forked child did not end well".into(),
        Some(HANDLER_HANGS) => "the capture in a handler did not end".into(),
        _ if ended.status.is_none() => "it did not end".into(),
        _ => format!("{:?} {}", ended.status, ended.output),
    }
}
