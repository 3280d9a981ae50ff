//! Programs of the distribution, stripped as they come.

use super::*;

fn is_there(program: &str) -> bool {
    let found =
        Command::new("sh").args(["-c", "command -v \"$0\"", program]).output().unwrap().status.success();
    if !found {
        skip(&format!("{program} is not installed"));
    }
    found
}

/// Runs a program on a FIFO that a writer opens late, and that is written to later still.
fn on_a_fifo(words: &[&str]) -> (Vec<Value>, Output) {
    let folder = Folder::new();
    let (fifo, report) = (folder.fifo("fifo"), folder.path("r"));
    let words: Vec<&str> =
        words.iter().map(|word| if *word == "FIFO" { fifo.to_str().unwrap() } else { word }).collect();
    let child = run(&report, &words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let mut writer = std::fs::File::options().write(true).open(&fifo).unwrap();
    std::thread::sleep(Duration::from_millis(700));
    writer.write_all(b"late\n").unwrap();
    drop(writer);
    let output = child.wait_with_output().unwrap();
    let records = (1..=records(&report) as u64).map(|number| json(&report, number)).collect();
    (records, output)
}

/// A program that waits for its input: once to open it, and once to read it.
fn waits_for_its_input(words: &[&str], opening: &[&str], reading: &[&str]) {
    if cannot_look() || !is_there(words[0]) {
        return;
    }
    for _ in 0..4 {
        let (records, output) = on_a_fifo(words);
        assert_eq!(
            (text(&output.stdout).as_str(), output.status.code()),
            ("late\n", Some(0)),
            "{}",
            told(&output)
        );
        let stacks: Vec<_> = records.iter().map(functions).collect();
        if let [first, second] = stacks.as_slice() {
            assert!(in_order(first, opening), "{first:#?}");
            assert!(in_order(second, reading), "{second:#?}");
            assert!(records.iter().all(|record| record["episode"]["cause"] == "io"));
            return;
        }
        println!("tried again: {}", told(&output));
    }
    panic!("two freezes were not seen");
}

#[test]
fn cat_stands_still_where_it_opens_a_fifo_and_where_it_reads_it() {
    waits_for_its_input(&["cat", "FIFO"], &["open64", "libc_start_main"], &["read", "libc_start_main"]);
}

#[test]
fn python_stands_still_in_the_functions_of_its_interpreter() {
    let script = "import sys; sys.stdout.write(open(sys.argv[1]).read())";
    waits_for_its_input(&["python3", "-c", script, "FIFO"], &["open64"], &["read", "libc_start_main"]);
}

/// A D-Bus of its own, in which a script runs. `PEER` in it is a service that can be stopped.
fn with_a_bus(script: &str, freezeframe_or_nothing: &str) -> Output {
    let script = format!(
        "dbus-test-tool echo --name=org.example.Peer & PEER=$!
         while ! dbus-send --session --print-reply --dest=org.example.Peer / org.example.Any.Thing >/dev/null 2>&1; do sleep 0.05; done
         {script}
         status=$?
         kill $PEER
         exit $status"
    );
    let mut command = Command::new("dbus-run-session");
    command.args(["--", "sh", "-c", &script]).env("RUN", freezeframe_or_nothing);
    command.stdin(Stdio::null()).output().unwrap()
}

fn has_a_bus() -> bool {
    ["dbus-run-session", "dbus-test-tool", "dbus-send", "gdbus"].into_iter().all(is_there)
}

const CALL: &str =
    "gdbus call --session --dest org.example.Peer --object-path / --method org.example.Any.Thing";

#[test]
fn a_glib_program_whose_peer_is_stopped_stands_still_in_its_call() {
    if cannot_look() || !has_a_bus() {
        return;
    }
    let folder = Folder::new();
    let report = folder.path("r");
    let watched = format!("{} run --report {} --", env!("CARGO_BIN_EXE_freezeframe"), report.display());
    let script = format!("kill -STOP $PEER; (sleep 1.2; kill -CONT $PEER) & $RUN {CALL}");
    let output = with_a_bus(&script, &watched);
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("()\n", Some(0)), "{}", told(&output));
    let record = json(&report, records(&report) as u64);
    let names = functions(&record);
    let wanted =
        ["g_main_loop_run", "g_dbus_connection_send_message_with_reply_sync", "g_dbus_connection_call_sync"];
    assert!(in_order(&names, &wanted), "{names:#?}");
    assert_eq!((&record["episode"]["cause"], &record["process"]["name"]), (&"peer".into(), &"gdbus".into()));
}

#[test]
fn a_glib_program_whose_peer_answers_is_as_without_us() {
    if cannot_look() || !has_a_bus() {
        return;
    }
    let folder = Folder::new();
    let watched = format!(
        "{} run --quiet --report {} --",
        env!("CARGO_BIN_EXE_freezeframe"),
        folder.path("r").display()
    );
    let [alone, ours] = ["", &watched].map(|run| {
        with_a_bus(
            &format!(
                "$RUN {CALL}; $RUN {CALL}.wrong x; $RUN gio info -a standard::name {}",
                folder.0.display()
            ),
            run,
        )
    });
    assert_eq!((alone.status.code(), text(&alone.stdout)), (ours.status.code(), text(&ours.stdout)));
    let without_bus = |output: &Output| {
        text(&output.stderr)
            .lines()
            .filter(|line| !line.starts_with("dbus-daemon"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(without_bus(&alone), without_bus(&ours));
}

#[test]
fn a_glib_program_that_prints_into_a_full_pipe_stands_still_in_its_callback() {
    if cannot_look() || !is_there("gio") {
        return;
    }
    let folder = Folder::new();
    let (report, changes) = (folder.path("r"), folder.path("changes"));
    std::fs::create_dir(&changes).unwrap();
    let mut command = run(&report, &["gio", "monitor", changes.to_str().unwrap()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let name = "x".repeat(200);
    until("a record", || {
        change_files(&changes, &name);
        report.exists() && records(&report) > 0
    });
    let record = json(&report, 1);
    let names = functions(&record);
    let wanted = ["write", "g_main_context_dispatch", "g_main_context_iteration"];
    assert!(
        in_order(&names, &wanted)
            || in_order(&names, &["write", "g_main_context_dispatch", "g_main_loop_run"]),
        "{names:#?}"
    );
    assert_eq!((&record["strategy"], &record["episode"]["cause"]), (&"run-loop".into(), &"io".into()));
    // Somebody reads: it goes on, and takes the signal that is passed on.
    let mut out = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()).unwrap());
    until("it goes on", || json(&report, 1)["outcome"] == "recovered");
    send(child.id() as i32, libc::SIGTERM);
    child.wait().unwrap();
    let printed = reader.join().unwrap();
    assert!(printed > 60_000, "{printed}");
}

/// Makes some files, and takes them away.
fn change_files(folder: &Path, name: &str) {
    for number in 0..50 {
        let path = folder.join(format!("{name}{number}"));
        std::fs::write(&path, "").unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}
