//! The command as a user runs it.
#![cfg(unix)]

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// How this system's threads are held.
const HELD: &[&str] = if cfg!(target_vendor = "apple") { &["mach"] } else { &["signal", "peek"] };

/// A folder that goes away.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("freezeframe-command-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o755).create(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The command, through the emulator if the tests run in one.
fn freezeframe() -> Command {
    let program = env!("CARGO_BIN_EXE_freezeframe");
    match option_env_runner() {
        Some(runner) => {
            let mut words = runner.split_whitespace().map(str::to_owned);
            let mut command = Command::new(words.next().unwrap());
            command.args(words).arg(program);
            command
        }
        None => Command::new(program),
    }
}

fn option_env_runner() -> Option<String> {
    let name = format!("CARGO_TARGET_{}_UNKNOWN_LINUX_GNU_RUNNER", std::env::consts::ARCH.to_uppercase());
    std::env::var(name).ok()
}

fn run(arguments: &[&str]) -> Output {
    freezeframe().args(arguments).env_remove("RUST_BACKTRACE").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A demo whose freezes are not those that it has provoked, since the machine stood still, gets another try.
fn demo(report: &Path, strategy: &str, cause: &str) -> Output {
    let before = std::fs::read(report).ok();
    let path = report.to_str().unwrap();
    for _ in 0..4 {
        let output =
            run(&["demo", "--rows", "20", "--strategy", strategy, "--cause", cause, "--report", path]);
        if output.status.success() || !text(&output.stderr).contains("were provoked, but") {
            return output;
        }
        println!("tried again: {}", text(&output.stderr));
        match &before {
            Some(before) => std::fs::write(report, before).unwrap(),
            None => std::fs::remove_file(report).unwrap(),
        }
    }
    panic!("the machine stands still too often");
}

fn json(report: &Path, record: u64) -> Value {
    let output = run(&["show", report.to_str().unwrap(), "--record", &record.to_string(), "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The functions in the watched thread's stack, innermost first.
fn functions(record: &Value) -> Vec<String> {
    let threads = record["threads"].as_array().unwrap();
    functions_of(threads.iter().find(|thread| thread["watched"] == true).unwrap())
}

fn functions_of(thread: &Value) -> Vec<String> {
    let frames = thread["frames"].as_array().unwrap();
    let names = frames.iter().filter_map(|frame| frame["symbol"]["name"].as_str());
    // Newer compilers write `<Type>::method`, older ones `Type::method`.
    names.map(|name| name.replace(['<', '>'], "")).collect()
}

/// Two freezes of 500 ms, no other, and each with the blocking function and its callers up to `main`.
fn shows_the_provoked_freezes(strategy: &str, cause: &str, function: &str) {
    let folder = Folder::new();
    let report = folder.path("r");
    let output = demo(&report, strategy, cause);
    let out = text(&output.stdout);
    assert!(output.status.success(), "{out}\n{}", text(&output.stderr));
    assert!(out.contains("2 freezes provoked, 2 detected"), "{out}");
    assert_eq!((out.matches("FROZEN for").count(), out.matches("recovered after").count()), (2, 2), "{out}");
    for field in
        ["Time Held:", "Threshold:           5 timeouts of 50.0 ms in a row (250 ms)", "after the threshold"]
    {
        assert!(out.contains(field), "{field}: {out}");
    }
    for record in [1, 2].map(|number| json(&report, number)) {
        let names = functions(&record);
        let wanted = [
            format!("freezeframe::demo::cause::{function}"),
            "freezeframe::demo::cause::Blocker::block".into(),
            "freezeframe::demo::table::Table::load_picture".into(),
            "freezeframe::demo::table::Table::draw_row".into(),
            "freezeframe::demo::table::Table::scroll".into(),
            "freezeframe::demo::run_loop::RunLoop::fire_timers".into(),
            "freezeframe::demo::run_loop::RunLoop::run".into(),
            "freezeframe::demo::run".into(),
            "freezeframe::main".into(),
            "main".into(),
        ];
        let mut rest = names.iter();
        for name in &wanted {
            assert!(rest.any(|found| found == name), "{name} is not at its place in {names:#?}");
        }
        assert_eq!((&record["outcome"], &record["complete"]), (&"recovered".into(), &true.into()));
        let expected = match cause {
            "compute" => "cpu-bound",
            "sleep" => "sleeping",
            "deadlock" => "lock",
            other => other,
        };
        // An emulator does not tell of the system call that a thread waits in.
        if option_env_runner().is_none() {
            let (episode, number) =
                (&record["episode"], |name: &str| record["episode"][name].as_u64().unwrap());
            // On a machine so loaded that it got no processor to compute with, that is the truth.
            let starved = episode["cause"] == "starved" && number("cpu_ns") * 20 < number("window_ns");
            assert!(episode["cause"] == expected || cause == "compute" && starved, "{episode}");
        }
        assert!(!record["episode"]["evidence"].as_array().unwrap().is_empty());
        let heaviest = record["samples"]["stacks"][0]["frames"].as_array().unwrap();
        let named =
            |frame: &Value| frame["symbol"]["name"].as_str().is_some_and(|name| name.contains(function));
        assert!(heaviest.iter().any(named), "{heaviest:#?}");
        let samples = record["samples"]["samples"].as_array().unwrap();
        let weights: u64 = samples.iter().map(|sample| sample["weight_ns"].as_u64().unwrap()).sum();
        assert!(samples.len() >= 3, "{samples:#?}");
        assert!(weights.abs_diff(record["duration_ns"].as_u64().unwrap()) < 60_000_000, "all of the time");
        let lasted = record["duration_ns"].as_u64().unwrap() / 1_000_000;
        // Less than 500 where the watcher was starved for a while, or a ping was sent late.
        assert!((250..20_000).contains(&lasted), "{lasted} ms");
    }
    let list = run(&["list", report.to_str().unwrap()]);
    assert_eq!(text(&list.stdout).lines().filter(|line| line.contains("recovered")).count(), 2);
}

#[test]
fn the_demo_shows_a_computing_loop() {
    shows_the_provoked_freezes("run-loop", "compute", "block_by_computing");
}

#[test]
fn the_demo_shows_a_sleeping_loop() {
    shows_the_provoked_freezes("run-loop", "sleep", "block_by_sleeping");
}

#[test]
fn the_demo_shows_a_loop_that_waits_for_a_lock() {
    shows_the_provoked_freezes("run-loop", "lock", "block_by_waiting_for_a_lock");
}

#[test]
fn the_demo_names_the_threads_of_a_deadlock_their_locks_and_their_frames() {
    if option_env_runner().is_some() {
        println!("not tested: an emulator does not tell of the system call that a thread waits in");
        return;
    }
    let folder = Folder::new();
    let report = folder.path("r");
    let output = demo(&report, "run-loop", "deadlock");
    let out = text(&output.stdout);
    assert!(output.status.success(), "{out}\n{}", text(&output.stderr));
    assert!(
        out.contains("(run-loop, deadlock)") && out.contains("waiting for a lock, in a deadlock"),
        "{out}"
    );
    let record = json(&report, 1);
    let id = |name: &str| {
        let threads = record["threads"].as_array().unwrap();
        &threads.iter().find(|thread| thread["name"] == name).unwrap()["id"]
    };
    let (ours, theirs) = (&record["threads"][0]["id"], id("other-half"));
    let rings = record["deadlocks"].as_array().unwrap();
    assert_eq!(rings.len(), 1);
    let steps = [(&rings[0][0], ours, theirs), (&rings[0][1], theirs, ours)];
    for (step, thread, waits_for) in steps {
        assert_eq!(
            (&step["thread"], &step["waits_for"], &step["kind"]),
            (thread, waits_for, &"mutex".into())
        );
    }
    assert_eq!(record["blocked_by"], rings[0], "once round");
    let other = record["threads"].as_array().unwrap().iter().find(|thread| &thread["id"] == theirs).unwrap();
    assert!(functions_of(other).iter().any(|name| name.ends_with("cause::take_the_other_lock")), "{other}");
}

#[test]
fn the_demo_shows_a_loop_that_waits_for_a_pipe() {
    shows_the_provoked_freezes("run-loop", "io", "block_by_reading_a_pipe");
}

#[test]
fn the_demo_shows_a_loop_that_never_waits() {
    if option_env_runner().is_some() {
        println!("not tested: an emulator makes the loop too slow to be never idle for so short a time");
        return;
    }
    let folder = Folder::new();
    let report = folder.path("r");
    let output = demo(&report, "run-loop", "livelock");
    let out = text(&output.stdout);
    assert!(output.status.success(), "{out}\n{}", text(&output.stderr));
    assert!(out.contains("2 freezes provoked, 2 detected") && out.contains("NEVER IDLE for"), "{out}");
    let records = [1, 2].map(|number| json(&report, number));
    let never = records.iter().find(|record| record["kind"] == "never-idle").expect("it is one of them");
    assert_eq!((&never["outcome"], &never["complete"]), (&"recovered".into(), &true.into()));
    let stacks = never["samples"]["stacks"].to_string();
    assert!(stacks.contains("keep_busy"), "{stacks}");
    let refused = run(&["demo", "--strategy", "ping", "--cause", "livelock"]);
    assert!(refused.status.code() == Some(1) && text(&refused.stderr).contains("answers pings"));
}

#[test]
fn pings_find_the_same() {
    shows_the_provoked_freezes("ping", "compute", "block_by_computing");
    shows_the_provoked_freezes("ping", "lock", "block_by_waiting_for_a_lock");
}

#[test]
fn the_json_has_every_part_of_a_record_and_the_lock_holder() {
    let folder = Folder::new();
    let report = folder.path("r");
    assert!(demo(&report, "run-loop", "lock").status.success());
    let record = json(&report, 1);
    for field in [
        "uuid",
        "sequence",
        "slot",
        "complete",
        "faults",
        "kind",
        "strategy",
        "component",
        "last_activity",
        "outcome",
        "duration_ns",
        "times",
        "threshold",
        "late_ticks",
        "wakeups",
        "boot_id",
        "pac_mask",
        "architecture",
        "process",
        "system",
        "threads",
        "images",
        "dropped",
        "repeats",
        "episode",
        "samples",
        "told",
    ] {
        assert!(record.get(field).is_some(), "{field} is missing");
    }
    let (process, system) = (&record["process"], &record["system"]);
    assert_eq!((&process["app"], &process["app_state"]), (&"dev.freezeframe.demo".into(), &"unknown".into()));
    assert_eq!((&process["debugged"], &process["translated"]), (&false.into(), &false.into()));
    for (what, least) in [
        (&process["cpu_ns"], 1),
        (&process["footprint_bytes"], 1 << 20),
        (&system["memory_bytes"], 64 << 20),
        (&record["times"]["continuous_ns"], record["times"]["detected_ns"].as_u64().unwrap()),
    ] {
        assert!(what.as_u64().is_some_and(|number| number >= least), "{what} is below {least}");
    }
    assert_eq!(
        (&record["threshold"]["interval_ns"], &record["threshold"]["misses"]),
        (&50_000_000.into(), &5.into())
    );
    let holder =
        record["threads"].as_array().unwrap().iter().find(|thread| thread["name"] == "lock-holder").unwrap();
    assert!(holder["frames"].as_array().unwrap().len() > 2);
    assert!(HELD.contains(&holder["held"]["how"].as_str().unwrap()), "{}", holder["held"]);
    let registers = record["threads"][0]["registers"].as_object().unwrap();
    let pc = registers.get("rip").or_else(|| registers.get("pc")).unwrap();
    assert_eq!(*pc, record["threads"][0]["frames"][0]["pc"]);
    let image = &record["images"][record["threads"][0]["frames"][1]["image"].as_u64().unwrap() as usize];
    assert!(
        image["build_id"].as_str().unwrap().len() >= 16 && image["path"].as_str().unwrap().starts_with('/')
    );
}

#[test]
fn a_crash_report_of_apples_has_the_frozen_thread_first_with_nothing_between_its_frames() {
    let folder = Folder::new();
    let report = folder.path("r");
    assert!(demo(&report, "run-loop", "sleep").status.success());
    let output = run(&["show", report.to_str().unwrap(), "--apple", "--record", "1"]);
    let shown = text(&output.stdout);
    assert!(output.status.success() && shown.starts_with("Incident Identifier: "), "{shown}");
    let frames =
        shown.split("Thread 0 Crashed:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap();
    for (number, line) in frames.lines().enumerate() {
        assert!(line.starts_with(&format!("{number} ")) && line.contains(" 0x0000"), "{line}");
    }
    assert!(frames.contains("demo::cause::block_by_sleeping + "), "{frames}");
    let images = shown.split("Binary Images:\n").nth(1).unwrap();
    let own = images.lines().find(|line| line.contains(" +freezeframe ")).unwrap();
    let id = own.split(['<', '>']).nth(1).unwrap();
    assert!(id.len() == 32 && id.chars().all(|digit| digit.is_ascii_hexdigit()), "{own}");
}

/// Kills a demo as soon as it tells of a freeze; whether it was still going on then.
fn killed_in_a_freeze(report: &Path) -> bool {
    let mut child = freezeframe()
        .args(["demo", "--cause", "sleep", "--report", report.to_str().unwrap()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("FROZEN")));
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));

    let list = run(&["list", report.to_str().unwrap()]);
    let line = text(&list.stdout);
    assert!(list.status.success() && line.lines().count() == 1, "{line}");
    line.contains("killed")
}

#[test]
fn a_program_killed_in_the_middle_of_a_freeze_leaves_its_stacks() {
    let folder = Folder::new();
    // On a machine that stands still the freeze may be over before the kill.
    let killed =
        (0..4).map(|number| folder.path(&format!("r{number}"))).find(|report| killed_in_a_freeze(report));
    let report = killed.expect("the machine stands still too often");
    let record = json(&report, 1);
    assert_eq!(record["outcome"], "killed");
    assert!(record["duration_ns"].as_u64().unwrap() >= 250_000_000, "the duration so far");
    assert!(functions(&record).iter().any(|name| name.ends_with("block_by_sleeping")));
    let shown = text(&run(&["show", report.to_str().unwrap()]).stdout);
    assert!(
        shown.contains("the process ended in the middle of it") && shown.contains("block_by_sleeping + ")
    );

    // The next run adds to the file.
    assert!(demo(&report, "run-loop", "sleep").status.success());
    let line = text(&run(&["list", report.to_str().unwrap()]).stdout);
    assert_eq!((line.matches("killed").count(), line.matches("recovered").count()), (1, 2), "{line}");
}

/// Runs a command that must fail with one clear line, exit code 1, and without a panic.
fn fails(arguments: &[&str], expected: &str) {
    let output = run(arguments);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
    assert!(error.contains(expected) && error.lines().count() == 1, "{arguments:?}: {error}");
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
}

#[test]
fn what_is_no_report_is_a_clear_error_and_stays_as_it_is() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name).to_str().unwrap().to_owned();
    std::fs::write(path("text"), "These are not the bytes of a report.").unwrap();
    std::fs::write(path("empty"), "").unwrap();
    std::fs::create_dir(path("folder")).unwrap();
    symlink(path("text"), path("link")).unwrap();
    symlink(path("nowhere"), path("dangling")).unwrap();
    assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    let missing = path("no/such/folder");
    for (file, reading, writing) in [
        (path("text"), "not a freezeframe report", "not a freezeframe report"),
        (path("empty"), "not a freezeframe report", "not a freezeframe report"),
        (path("folder"), "not a regular file", "not a regular file"),
        (path("link"), "symbolic link", "symbolic link"),
        (path("dangling"), "symbolic link", "symbolic link"),
        (path("pipe"), "not a regular file", "not a regular file"),
        ("/dev/null".into(), "not a regular file", "not a regular file"),
        (missing, "No such file", "No such file"),
    ] {
        fails(&["list", &file], reading);
        fails(&["show", &file], reading);
        fails(&["demo", "--report", &file], writing);
    }
    assert_eq!(std::fs::read(path("text")).unwrap(), b"These are not the bytes of a report.");
    assert_eq!(std::fs::read(path("empty")).unwrap(), b"");
    assert!(!folder.path("nowhere").exists());
    let left = std::fs::read_dir(&folder.0).unwrap().count();
    assert_eq!(left, 6, "no temporary files stay behind");
}

#[test]
fn a_file_without_permission_is_a_clear_error() {
    let folder = Folder::new();
    let file = folder.path("secret");
    std::fs::write(&file, "x").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    let program = folder.path("program");
    std::fs::copy(env!("CARGO_BIN_EXE_freezeframe"), &program).unwrap();
    if option_env_runner().is_some() {
        println!("skipped: under an emulator the program cannot be run as another user");
        return;
    }
    for arguments in [["list"].as_slice(), &["demo", "--report"]] {
        let mut command = Command::new(&program);
        command.args(arguments).arg(&file);
        if rustix::process::geteuid().is_root() {
            // Root may read everything; nobody may not.
            command.uid(65534).gid(65534);
        }
        let output = command.output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("Permission denied") && error.contains("secret"), "{error}");
    }
}

#[test]
fn a_second_process_on_the_same_file_is_refused_and_the_first_goes_on() {
    let folder = Folder::new();
    let report = folder.path("r");
    let report = report.to_str().unwrap();
    let mut first = freezeframe().args(["demo", "--report", report]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(first.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("row") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0);
    }
    fails(&["demo", "--report", report], "being written by another monitor");
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    first.wait().unwrap();
    assert!(rest.contains("4 freezes provoked, "), "{rest}");
}

/// A file system of its own without being root is Linux's.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_at_creation_is_a_clear_error_and_leaves_nothing() {
    let folder = Folder::new();
    let script = format!(
        "mount -t tmpfs -o size=1m tmpfs {0} || exit 99; \"$@\" demo --report {0}/r; code=$?; ls -A {0}; exit $code",
        folder.0.display()
    );
    let freezeframe = freezeframe();
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", &script, "sh"])
        .arg(freezeframe.get_program())
        .args(freezeframe.get_args())
        .output();
    let output = match output {
        Ok(output) if output.status.code() == Some(1) && !text(&output.stderr).contains("unshare:") => output,
        other => {
            println!("skipped: no file system of its own can be mounted here: {other:?}");
            return;
        }
    };
    let error = text(&output.stderr);
    assert!(error.contains("no space for") && error.contains("the file needs 2629632 bytes"), "{error}");
    assert_eq!(text(&output.stdout), "", "nothing is left in the folder");
}

#[test]
fn a_limit_for_files_is_a_clear_error_and_not_the_end() {
    let folder = Folder::new();
    let freezeframe = freezeframe();
    let script = format!("ulimit -f 100; exec \"$@\" demo --report {}", folder.path("r").display());
    let output = Command::new("bash")
        .args(["-c", &script, "bash"])
        .arg(freezeframe.get_program())
        .args(freezeframe.get_args())
        .output()
        .unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("/r") && error.contains("File too large"), "{error}");
    assert!(!folder.path("r").exists());
}

#[test]
fn damage_is_told_by_the_exit_code() {
    let folder = Folder::new();
    let report = folder.path("r");
    assert!(demo(&report, "run-loop", "sleep").status.success());
    let mut bytes = std::fs::read(&report).unwrap();
    // In the payload of the first record: the second slot behind the reserved ones.
    let payload = 8192 + 2 * 262_144 + 256;
    bytes[payload + 700] ^= 1;
    std::fs::write(&report, &bytes).unwrap();
    let list = run(&["list", report.to_str().unwrap()]);
    let line = text(&list.stdout);
    assert_eq!(list.status.code(), Some(3));
    assert_eq!((line.matches("INCOMPLETE").count(), line.lines().count()), (1, 2), "{line}");
    let show = run(&["show", report.to_str().unwrap(), "--record", "1"]);
    assert!(show.status.code() == Some(3) && text(&show.stdout).contains("Incomplete:"));
    assert!(run(&["show", report.to_str().unwrap(), "--record", "2"]).status.success());
    fails(&["show", report.to_str().unwrap(), "--record", "77"], "no record 77");
    bytes[payload - 200] ^= 1;
    std::fs::write(&report, &bytes).unwrap();
    let list = run(&["list", report.to_str().unwrap()]);
    assert_eq!(list.status.code(), Some(3));
    assert!(text(&list.stderr).contains("slot 2 holds a record that cannot be read: its header is damaged"));
}

#[test]
fn wrong_usage_has_its_own_exit_code() {
    for arguments in [
        &[][..],
        &["show", "f", "--json", "--apple"],
        &["demo", "--cause", "magic"],
        &["show"],
        &["demo", "--rows", "0"],
        &["dance"],
    ] {
        assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
    }
    assert!(run(&["--help"]).status.success() && run(&["--version"]).status.success());
}

#[test]
fn a_reader_that_goes_away_ends_the_output_quietly() {
    let folder = Folder::new();
    let report = folder.path("r");
    assert!(demo(&report, "run-loop", "sleep").status.success());
    for arguments in [["show", "--json"].as_slice(), &["show"], &["list"]] {
        let mut child = freezeframe()
            .args(arguments)
            .arg(&report)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && !text(&output.stderr).contains("panicked"), "{output:?}");
    }
}

/// A process that dies of it, and another one that shows where.
#[cfg(target_os = "linux")]
#[test]
fn a_crash_is_shown_with_the_function_that_crashed_and_no_freeze_beside_it() {
    if option_env_runner().is_some() {
        println!("not tested: the demo starts itself anew, which an emulated program cannot");
        return;
    }
    let ways = [
        ("null", "SIGSEGV", "write_to_null", 11),
        ("overflow", "SIGSEGV", "recurse_endlessly", 6),
        ("abort", "SIGABRT", "crash::crash", 6),
    ];
    for (way, signal, function, ended_by) in ways {
        let folder = Folder::new();
        let report = folder.path("r");
        let output = run(&["demo", "--crash", way, "--report", report.to_str().unwrap()]);
        let out = text(&output.stdout);
        assert!(output.status.success(), "{out}\n{}", text(&output.stderr));
        assert!(out.contains(&format!("ended by signal {ended_by};")), "{out}");
        assert!(out.contains(&format!("Exception Type:      {signal}\n")), "{out}");
        let list = text(&run(&["list", report.to_str().unwrap()]).stdout);
        assert_eq!(list.lines().count(), 1, "{list}");
        assert!(list.contains("  crashed    ") && list.contains(signal) && list.contains(function), "{list}");
        let record = json(&report, 1);
        assert_eq!(
            (record["kind"].as_str(), record["crash"]["name"].as_str()),
            (Some("crash"), Some(signal))
        );
        let names = functions(&record);
        assert!(names.iter().any(|name| name.contains(function)), "{names:#?}");
        assert!(names.iter().any(|name| name.ends_with("Table::load_picture")), "{names:#?}");
    }
}
