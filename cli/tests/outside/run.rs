//! What `freezeframe run` sees.

use super::*;
use std::os::unix::process::{CommandExt, ExitStatusExt};

/// Runs the event loop, whose tenth event takes long. A machine that stands still hides a freeze: another try then.
fn frozen(what: &str, more: &[&str], help: impl Fn()) -> (Value, Output) {
    for _ in 0..4 {
        let folder = Folder::new();
        let report = folder.path("r");
        let child = run(&report, &[&[built("event_loop").unwrap(), what], more].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        help();
        let output = child.wait_with_output().unwrap();
        assert_eq!(text(&output.stdout), "begins\n0 interrupted\n", "{}", told(&output));
        assert_eq!(output.status.code(), Some(5), "{}", told(&output));
        if records(&report) == 1 {
            assert!(text(&output.stderr).contains("FROZEN for"), "{}", told(&output));
            return (json(&report, 1), output);
        }
        println!("tried again: {}", told(&output));
    }
    panic!("no freeze was seen");
}

fn is_the_programs(record: &Value, cause: &str, wanted: &[&str]) {
    let names = functions(record);
    assert!(in_order(&names, wanted), "{names:#?}");
    assert_eq!(record["episode"]["cause"], cause, "{:#}", record["episode"]);
    assert_eq!((&record["strategy"], &record["outcome"]), (&"peek".into(), &"recovered".into()));
    let lasted = record["duration_ns"].as_u64().unwrap();
    assert!((400_000_000..10_000_000_000).contains(&lasted), "{lasted}");
    assert_eq!(record["process"]["name"], "outside_event_loop");
    assert_eq!(record["process"]["path"], built("event_loop").unwrap());
    assert_eq!(record["threads"][0]["id"], record["process"]["pid"]);
    assert_eq!(record["process"]["parent_name"], "freezeframe");
}

#[test]
fn an_event_that_computes_is_a_freeze_with_its_functions() {
    if cannot_look() {
        return;
    }
    let (record, output) = frozen("compute", &[], || {});
    is_the_programs(&record, "cpu-bound", &["compute_sum", "handle_event", "main", "start"]);
    let stderr = text(&output.stderr);
    assert!(stderr.contains("compute_sum + ") && stderr.contains("outside_event_loop"), "{stderr}");
    assert!(stderr.contains("1 freeze. The report: "), "{stderr}");
}

#[test]
fn an_event_that_sleeps_below_the_loop_is_a_freeze() {
    if cannot_look() {
        return;
    }
    let (record, _) = frozen("sleep", &[], || {});
    is_the_programs(&record, "sleeping", &["usleep", "handle_event", "main"]);
    assert_eq!(record["threads"][0]["held"]["how"], "peek", "nobody was stopped for it");
}

/// Runs a program whose loop is its own and has a known name, and returns its records.
fn with_a_loop_in_the_program(what: &str) -> Vec<Value> {
    let folder = Folder::new();
    let report = folder.path("r");
    let output = run(&report, &[built("loop_in_program").unwrap(), what]).output().unwrap();
    assert_eq!((text(&output.stdout), output.status.code()), ("ends\n".into(), Some(5)), "{}", told(&output));
    (1..=records(&report) as u64).map(|number| json(&report, number)).collect()
}

#[test]
fn a_callback_that_sleeps_is_a_freeze_although_its_loop_waits_deeper_in_the_stack() {
    if cannot_look() {
        return;
    }
    // A machine that stands still hides a freeze: another try then.
    let found = (0..4).map(|_| with_a_loop_in_the_program("callback")).find(|records| records.len() == 1);
    let record = &found.expect("no freeze was seen")[0];
    let names = functions(record);
    assert!(in_order(&names, &["usleep", "on_timer", "uv_run", "main"]), "{names:#?}");
    assert_eq!(record["episode"]["cause"], "sleeping");
}

#[test]
fn neither_a_loop_in_the_program_nor_what_comes_after_it_is_a_freeze() {
    if cannot_look() {
        return;
    }
    for what in ["nothing", "after"] {
        let records = with_a_loop_in_the_program(what);
        assert!(records.is_empty(), "{what}: {:#}", records[0]);
    }
}

#[test]
fn an_event_that_waits_for_a_lock_is_a_freeze_that_names_the_locks_owner() {
    if cannot_look() {
        return;
    }
    let (record, _) = frozen("lock", &[], || {});
    is_the_programs(&record, "lock", &["pthread_mutex_lock", "take_lock", "handle_event", "main"]);
    let owner = &record["threads"][1];
    assert_eq!(record["threads"][0]["lock"]["owner"]["thread"], owner["id"], "{:#}", record["threads"][0]);
}

#[test]
fn an_event_that_reads_from_a_fifo_is_a_freeze_in_both_of_its_calls() {
    if cannot_look() {
        return;
    }
    let folder = Folder::new();
    let fifo = folder.fifo("fifo");
    let path = fifo.to_str().unwrap().to_owned();
    let (record, _) = frozen("read", &[&path], || {
        std::thread::sleep(Duration::from_millis(1600));
        std::fs::write(&fifo, "text").unwrap();
    });
    is_the_programs(&record, "io", &["open64", "read_slowly", "handle_event", "main"]);
}

#[test]
fn a_loop_that_is_never_slow_leaves_nothing_behind_not_even_an_empty_report() {
    if cannot_look() {
        return;
    }
    let folder = Folder::new();
    // A machine that stands still makes freezes of its own.
    let quiet = (0..4).any(|_| {
        let mut command = freezeframe();
        command.args(["run", "--", built("event_loop").unwrap(), "nothing"]).env("TMPDIR", &folder.0);
        let output = command.output().unwrap();
        assert_eq!(
            (text(&output.stdout).as_str(), output.status.code()),
            ("begins\n0 interrupted\n", Some(5))
        );
        output.stderr.is_empty() && std::fs::read_dir(&folder.0).unwrap().count() == 0
    });
    assert!(quiet);
}

#[test]
fn a_threshold_may_be_longer_and_a_quiet_run_says_nothing_but_writes_its_report() {
    if cannot_look() {
        return;
    }
    let folder = Folder::new();
    let report = folder.path("r");
    let sleep = |threshold: &str| {
        let mut command = freezeframe();
        command.args(["run", "--quiet", "--threshold", threshold, "--report"]).arg(&report);
        let output = command.args(["--", built("event_loop").unwrap(), "sleep"]).output().unwrap();
        assert!(output.stderr.is_empty(), "{}", told(&output));
        records(&report)
    };
    assert_eq!(sleep("20s"), 0);
    assert!((0..4).any(|_| sleep("300") > 0));
    let refused = freezeframe().args(["run", "--threshold", "1ms", "--", "true"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn the_command_ends_as_the_program_does() {
    if cannot_look() {
        return;
    }
    let folder = Folder::new();
    let report = folder.path("r");
    for code in [0, 1, 7, 255] {
        let output = run(&report, &["sh", "-c", &format!("exit {code}")]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", told(&output));
    }
    for signal in [libc::SIGTERM, libc::SIGSEGV, libc::SIGKILL, libc::SIGPIPE, libc::SIGUSR1] {
        let output = run(&report, &["sh", "-c", &format!("kill -{signal} $$")]).output().unwrap();
        assert_eq!(output.status.signal(), Some(signal), "{}", told(&output));
    }
    let output = run(&report, &["no-such-program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert!(text(&output.stderr).contains("there is no program no-such-program"), "{}", told(&output));
    let output = run(&report, &["/etc/passwd"]).output().unwrap();
    assert_eq!(output.status.code(), Some(126));
    assert!(text(&output.stderr).contains("cannot be run"), "{}", told(&output));
    assert_eq!(freezeframe().arg("run").output().unwrap().status.code(), Some(2));
}

/// A run of the event loop in a group of its own, frozen in a FIFO that nobody writes to.
fn frozen_in_fifo(folder: &Folder) -> (std::process::Child, u32) {
    let fifo = folder.fifo("fifo");
    let report = folder.path("r");
    let program = built("event_loop").unwrap();
    let mut command = run(&report, &[program, "read", fifo.to_str().unwrap()]);
    let child = command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("a record", || report.exists() && records(&report) == 1);
    let pid = json(&report, 1)["process"]["pid"].as_u64().unwrap() as u32;
    (child, pid)
}

#[test]
fn an_interrupt_from_the_terminal_ends_the_program_and_the_record_is_closed() {
    if cannot_look() {
        return;
    }
    let folder = Folder::new();
    let (mut child, pid) = frozen_in_fifo(&folder);
    assert_eq!(json(&folder.path("r"), 1)["outcome"], "ongoing");
    send(-(child.id() as i32), libc::SIGINT);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGINT));
    assert!(status_field(pid, "State:").is_none(), "it has ended");
    assert_eq!(json(&folder.path("r"), 1)["outcome"], "killed");
}

#[test]
fn a_signal_for_the_command_alone_is_passed_on() {
    if cannot_look() {
        return;
    }
    for signal in [libc::SIGTERM, libc::SIGALRM, libc::SIGRTMIN() + 3] {
        let folder = Folder::new();
        let (mut child, pid) = frozen_in_fifo(&folder);
        send(child.id() as i32, signal);
        assert_eq!(child.wait().unwrap().signal(), Some(signal));
        assert!(status_field(pid, "State:").is_none(), "it has ended");
    }
}

#[test]
fn an_alarm_set_before_is_the_programs() {
    if cannot_look() {
        return;
    }
    let folder = Folder::new();
    let mut command = run(&folder.path("r"), &["sleep", "100"]);
    let alarm = libc::itimerval {
        it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 },
        it_value: libc::timeval { tv_sec: 1, tv_usec: 0 },
    };
    // SAFETY: one system call between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::setitimer(libc::ITIMER_REAL, &alarm, std::ptr::null_mut());
            Ok(())
        })
    };
    let output = command.output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGALRM), "{}", told(&output));
    assert!(output.stderr.is_empty(), "{}", told(&output));
}
