//! Runs each scenario in a process of its own, under each watch.

use super::calls::{self, Call};
use super::scenarios::{SCENARIOS, Scenario};
use super::{child, tripwire};
use freezeframe_report::read::Report;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output};

/// The watches, with what they show.
const MODES: [(&str, &str, &str); 2] = [
    ("syscalls", "captures make no system calls but the listed ones", "a filter that kills"),
    (
        "allocations",
        "captures allocate nothing and free nothing",
        "allocators that end the process, Rust's and C's",
    ),
];

/// Runs all scenarios under the watches that are named, or under all.
pub(crate) fn run(named: &[String]) -> ExitCode {
    let chosen = |mode: &str| named.iter().any(|name| name == mode);
    let any = MODES.iter().any(|(mode, ..)| chosen(mode));
    let mut failed = false;
    for (mode, property, how) in MODES {
        if any && !chosen(mode) {
            continue;
        }
        let made: Vec<_> =
            SCENARIOS.iter().map(|scenario| (scenario.name, watched(mode, scenario))).collect();
        for (name, made) in &made {
            match made {
                Ok(made) => println!("  {name}: {made}"),
                Err(why) => println!("unproved: {property} | {how}: {name} | {why}"),
            }
        }
        let holds = made.iter().all(|(_, made)| made.is_ok());
        if holds {
            let captures: u32 = made.iter().filter_map(|(_, made)| made.as_ref().ok()).sum();
            println!("proof: {property} | {how} | {} ways of capturing, {captures} captures", made.len());
        }
        failed |= !holds || mode == "syscalls" && !all_are_needed();
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Whether something needs each row of the table: a scenario that does without makes a call that is not listed.
fn all_are_needed() -> bool {
    let (property, how) =
        ("no call is listed that no capture needs", "each row of the table taken away in turn");
    let rows = calls::rows();
    let needs = |(number, row): &(usize, &Call)| {
        // Whoever captures has threads that are captured.
        let concerned = |scenario: &&Scenario| row.is_during(scenario.kinds) || row.is_during(&["target"]);
        let mode = number.to_string();
        SCENARIOS.iter().filter(concerned).any(|scenario| has_heard(&play(&mode, scenario).0))
    };
    let (seldom, often): (Vec<_>, Vec<_>) = rows.iter().enumerate().partition(|(_, row)| row.is_seldom());
    // On a busy machine a capture may end before it comes to a call.
    let stale: Vec<_> = often.iter().filter(|row| !(0..3).any(|_| needs(row))).collect();
    for (_, row) in &stale {
        println!("unproved: {property} | {how} | {}, {:?}", calls::name(row.number), row.arguments);
    }
    if stale.is_empty() {
        println!("proof: {property} | {how} | {} rows; {} more that say when", often.len(), seldom.len());
    }
    stale.is_empty()
}

/// Whether a call was heard of that is not listed. It fails once nobody listens any more, and who made it may end the process first.
fn has_heard(output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    output.status.code() == Some(child::HEARD) || said.lines().any(|line| line.starts_with("system call "))
}

/// How many captures a scenario made in the way that it is about.
fn watched(mode: &str, scenario: &Scenario) -> Result<u32, String> {
    let output = play(mode, scenario);
    let said = String::from_utf8_lossy(&output.0.stderr).trim().replace('\n', "; ");
    let status = output.0.status;
    if mode == "syscalls" {
        // The helper is a process of its own: what kills it does not kill this one. And a kill does not say for what.
        let (told, _) = play("tell", scenario);
        if status.signal() == Some(libc::SIGSYS) || has_heard(&told) {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&told.stderr).trim()));
        }
    }
    if status.code() == Some(tripwire::TRIPPED) || has_heard(&output.0) {
        return Err(said);
    }
    if scenario.dies {
        return match output.1 {
            Some(frames) if frames > 1 && status.signal() == Some(libc::SIGSEGV) => Ok(1),
            frames => Err(format!("it ended with {status} and a record of {frames:?} frames: {said}")),
        };
    }
    let told = String::from_utf8_lossy(&output.0.stdout).into_owned();
    let numbers: Vec<u32> = told.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        // A loaded machine may need another way once or twice.
        [made, as_meant] if made > 0 && as_meant >= made.div_ceil(2) => Ok(as_meant),
        _ => Err(format!("it ended with {status}, having said {told:?}: {said}")),
    }
}

/// Runs it: what it said, and how many frames of its crash the file has.
fn play(mode: &str, scenario: &Scenario) -> (Output, Option<usize>) {
    let name = format!("freezeframe-captures-{}", std::process::id());
    let file: PathBuf = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&file);
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).args(["child", mode, scenario.name]).arg(&file).output().unwrap();
    let report = Report::take(&file).ok();
    let frames = report.and_then(|report| Some(report.records.first()?.threads.first()?.frames.len()));
    let _ = std::fs::remove_file(&file);
    (output, frames)
}
