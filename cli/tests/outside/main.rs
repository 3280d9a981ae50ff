//! `freezeframe run` and `freezeframe attach` on real programs: what they see, and that nobody notices.
#![cfg(target_os = "linux")]

mod attach;
mod distribution;
mod glib;
mod run;
mod unharmed;

use serde_json::Value;
use std::ffi::CString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A folder that goes away.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("freezeframe-outside-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a path that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Prints why a test does nothing here, not captured as `eprintln` would be.
fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Whether another process can be looked into here.
fn cannot_look() -> bool {
    let runner = format!("CARGO_TARGET_{}_UNKNOWN_LINUX_GNU_RUNNER", std::env::consts::ARCH.to_uppercase());
    let emulated = std::env::var_os(runner).is_some();
    if emulated {
        skip("an emulator does not look into other processes");
    }
    emulated
}

fn freezeframe() -> Command {
    Command::new(env!("CARGO_BIN_EXE_freezeframe"))
}

/// `freezeframe run` with a report file.
fn run(report: &Path, words: &[&str]) -> Command {
    let mut command = freezeframe();
    command.arg("run").arg("--report").arg(report).arg("--").args(words).stdin(Stdio::null());
    command
}

/// A program of this folder, built once; none if its library is not there.
fn built(name: &str) -> Option<&'static str> {
    static EVENT_LOOP: OnceLock<Option<String>> = OnceLock::new();
    static GLIB_LOOP: OnceLock<Option<String>> = OnceLock::new();
    static LOOP_IN_PROGRAM: OnceLock<Option<String>> = OnceLock::new();
    static TELL: OnceLock<Option<String>> = OnceLock::new();
    let cell = match name {
        "event_loop" => &EVENT_LOOP,
        "glib_loop" => &GLIB_LOOP,
        "loop_in_program" => &LOOP_IN_PROGRAM,
        "tell" => &TELL,
        _ => panic!("{name} has no place"),
    };
    cell.get_or_init(|| build(name)).as_deref()
}

fn build(name: &str) -> Option<String> {
    let mut flags = vec!["-O1".to_owned(), "-g".into(), "-pthread".into()];
    let mut libraries = Vec::new();
    if name == "glib_loop" {
        let told = Command::new("pkg-config").args(["--cflags", "--libs", "glib-2.0"]).output();
        match told.ok().filter(|told| told.status.success()) {
            Some(told) => {
                libraries.extend(text(&told.stdout).split_whitespace().map(str::to_owned));
            }
            None => {
                skip("GLib's headers are not there (libglib2.0-dev)");
                return None;
            }
        }
    }
    let source = format!("{}/tests/outside/programs/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let program = format!("{}/outside_{name}", env!("CARGO_TARGET_TMPDIR"));
    flags.extend(["-o".into(), program.clone(), source]);
    let built = Command::new("cc").args(flags).args(libraries).status().expect("a C compiler");
    assert!(built.success());
    Some(program)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn told(output: &Output) -> String {
    format!("{:?}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// A record of a report file, by its number.
fn json(report: &Path, record: u64) -> Value {
    let output =
        freezeframe().arg("show").arg(report).args(["--record", &record.to_string(), "--json"]).output();
    let output = output.unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", told(&output)))
}

/// How many records there are.
fn records(report: &Path) -> usize {
    let output = freezeframe().arg("list").arg(report).output().unwrap();
    text(&output.stdout).lines().filter(|line| line.contains("main (")).count()
}

/// The functions of the watched thread, innermost first.
fn functions(record: &Value) -> Vec<String> {
    let threads = record["threads"].as_array().unwrap();
    let watched = threads.iter().find(|thread| thread["watched"] == true).unwrap();
    let frames = watched["frames"].as_array().unwrap();
    frames.iter().filter_map(|frame| frame["symbol"]["name"].as_str()).map(str::to_owned).collect()
}

/// Whether names are among others in their order, with any between them.
fn in_order(names: &[String], wanted: &[&str]) -> bool {
    let mut rest = names.iter();
    wanted.iter().all(|name| rest.any(|found| found.trim_start_matches('_') == *name))
}

/// Waits until something is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What stands behind a name in `/proc/<pid>/status`.
fn status_field(pid: u32, name: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
}

fn send(pid: i32, signal: i32) {
    // SAFETY: a process that a test has started, or its group.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}
