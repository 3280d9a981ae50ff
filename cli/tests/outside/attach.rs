//! What `freezeframe attach` sees, and what it says where it cannot.

use super::*;
use std::os::unix::process::CommandExt;
use std::process::Child;

/// A program that is ended.
struct Running(Child);

impl Running {
    fn start(words: &[&str]) -> Self {
        let mut command = Command::new(words[0]);
        Self(command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn attach(report: &Path, pid: u32) -> Command {
    let mut command = freezeframe();
    command.arg("attach").arg("--report").arg(report).arg(pid.to_string());
    command
}

#[test]
fn a_running_program_is_watched_until_it_ends() {
    if cannot_look() {
        return;
    }
    let seen = (0..4).any(|_| {
        let folder = Folder::new();
        let report = folder.path("r");
        let mut program = Running::start(&[built("event_loop").unwrap(), "sleep"]);
        let output = attach(&report, program.id()).output();
        assert_eq!(program.0.wait().unwrap().code(), Some(5));
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        assert!(text(&output.stderr).contains("watching outside_event_l"), "{}", told(&output));
        records(&report) == 1 && in_order(&functions(&json(&report, 1)), &["usleep", "handle_event", "main"])
    });
    assert!(seen);
}

#[test]
fn who_is_let_go_is_as_before() {
    if cannot_look() {
        return;
    }
    let folder = Folder::new();
    let report = folder.path("r");
    let fifo = folder.fifo("fifo");
    let programs = [
        Running::start(&["sh", "-c", "while :; do :; done"]),
        Running::start(&["cat", fifo.to_str().unwrap()]),
        Running::start(&["sleep", "1000"]),
    ];
    for program in &programs {
        let fields = ["State:", "TracerPid:", "SigBlk:", "SigCgt:", "SigPnd:", "Threads:"];
        let status = || fields.map(|name| status_field(program.id(), name));
        until("it does what it does", || std::fs::read_link(format!("/proc/{}/exe", program.id())).is_ok());
        std::thread::sleep(Duration::from_millis(100));
        let before = status();
        let mut command = attach(&report, program.id()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(500));
        send(command.id() as i32, libc::SIGWINCH);
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(command.try_wait().unwrap(), None, "a terminal of another size is no end");
        send(command.id() as i32, libc::SIGINT);
        assert_eq!(command.wait().unwrap().code(), Some(0));
        assert_eq!(before, status());
    }
    assert!((1..=2).contains(&records(&report)), "`cat` stands still in the opening of a FIFO");
    assert!(functions(&json(&report, 1)).iter().any(|name| name.contains("open")));
}

#[test]
fn what_cannot_be_watched_is_said_with_its_reason() {
    if cannot_look() {
        return;
    }
    let folder = Folder::new();
    let says = |pid: u32, what: &str| {
        let output = attach(&folder.path("r"), pid).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        assert!(text(&output.stderr).contains(what), "{what}: {}", told(&output));
    };
    says(4_194_303, "there is no process 4194303");
    let own_threads = std::fs::read_dir("/proc/self/task").unwrap();
    let thread = own_threads.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let thread = thread.map(|id| id.parse::<u32>().unwrap()).find(|id| *id != std::process::id()).unwrap();
    says(thread, &format!("{thread} is a thread of process {}", std::process::id()));
    let kernel = std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd");
    if kernel {
        says(2, "is a thread of the kernel's");
    } else {
        skip("no thread of the kernel's is to be seen");
    }
    let mut ended = Command::new("true").spawn().unwrap();
    until("it ends", || status_field(ended.id(), "State:").is_some_and(|state| state.starts_with('Z')));
    says(ended.id(), "has ended");
    ended.wait().unwrap();
    assert_eq!(freezeframe().args(["attach", "0"]).output().unwrap().status.code(), Some(2));
}

#[test]
fn a_process_that_somebody_else_traces_is_not_watched() {
    if cannot_look() {
        return;
    }
    let folder = Folder::new();
    let program = Running::start(&["sleep", "1000"]);
    let pid = program.id() as i32;
    // SAFETY: numbers only; our own child.
    let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0) };
    assert_eq!(seized, 0);
    let output = attach(&folder.path("r"), program.id()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("is traced by process"), "{}", told(&output));
}

#[test]
fn another_users_process_is_not_watched_and_that_is_said() {
    if cannot_look() {
        return;
    }
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        return skip("only root can be another user");
    }
    let program = Running::start(&["sleep", "1000"]);
    let mut command = attach(Path::new("/nonexistent/r"), program.id());
    let output = command.uid(65534).gid(65534).output().unwrap();
    if text(&output.stderr).is_empty() {
        return skip("another user cannot run the command where it lies");
    }
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("another user's"), "{}", told(&output));
}
