//! GLib's main loop, which tells what it does.

use super::*;

/// What a GLib program prints by itself, and what it prints and what is seen under the command. A machine that stands still makes
/// freezes of its own, or hides one: another try then.
fn watched(what: &str, expected: usize) -> Option<Vec<Value>> {
    if cannot_look() {
        return None;
    }
    let program = built("glib_loop")?;
    let alone = Command::new(program).arg(what).stdin(Stdio::null()).output().unwrap();
    assert_eq!(alone.status.code(), Some(6));
    for _ in 0..4 {
        let folder = Folder::new();
        let report = folder.path("r");
        let output = run(&report, &[program, what]).output().unwrap();
        assert_eq!(text(&output.stdout), text(&alone.stdout), "{}", told(&output));
        assert_eq!(output.status.code(), Some(6), "{}", told(&output));
        if records(&report) == expected {
            return Some((1..=expected as u64).map(|number| json(&report, number)).collect());
        }
        println!("tried again: {}", told(&output));
    }
    panic!("{expected} freezes were not seen");
}

#[test]
fn a_callback_that_does_not_return_is_a_freeze_of_the_run_loop() {
    let Some(records) = watched("freeze", 1) else { return };
    let record = &records[0];
    let names = functions(record);
    let wanted = ["g_usleep", "import_mail", "tick", "g_main_context_dispatch", "g_main_loop_run", "main"];
    assert!(in_order(&names, &wanted), "{names:#?}");
    assert_eq!((&record["strategy"], &record["outcome"]), (&"run-loop".into(), &"recovered".into()));
    assert_eq!(record["process"]["name"], "outside_glib_loop");
    let lasted = record["duration_ns"].as_u64().unwrap();
    assert!((650_000_000..10_000_000_000).contains(&lasted), "from one transition to the next: {lasted}");
}

#[test]
fn a_dialog_is_no_freeze_and_a_loop_of_another_context_is_one() {
    watched("dialog", 0);
    let Some(records) = watched("elsewhere", 1) else { return };
    let names = functions(&records[0]);
    assert!(in_order(&names, &["wait_elsewhere", "tick", "g_main_context_dispatch", "main"]), "{names:#?}");
    assert_eq!(records[0]["strategy"], "run-loop");
}

#[test]
fn a_program_with_a_poll_function_of_its_own_keeps_it_and_is_watched() {
    watched("poll", 0);
}

#[test]
fn a_program_that_drives_its_loop_step_by_step_is_not_frozen_between_the_steps() {
    watched("steps", 0);
}

#[test]
fn a_forked_child_with_a_loop_of_its_own_does_not_tell() {
    watched("fork", 0);
}

#[test]
fn without_its_library_the_command_says_so_and_looks() {
    if cannot_look() {
        return;
    }
    let Some(program) = built("glib_loop") else { return };
    let folder = Folder::new();
    let lonely = folder.path("freezeframe");
    std::fs::copy(env!("CARGO_BIN_EXE_freezeframe"), &lonely).unwrap();
    let seen = (0..4).any(|_| {
        let report = folder.path("r");
        let _ = std::fs::remove_file(&report);
        let mut command = Command::new(&lonely);
        let output =
            command.arg("run").arg("--report").arg(&report).args(["--", program, "freeze"]).output().unwrap();
        assert_eq!(output.status.code(), Some(6), "{}", told(&output));
        assert!(
            text(&output.stderr).contains("libfreezeframe_preload.so is not beside"),
            "{}",
            told(&output)
        );
        records(&report) == 1 && json(&report, 1)["strategy"] == "peek"
    });
    assert!(seen);
}
