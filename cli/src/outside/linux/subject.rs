//! Whether a process can be watched, and if not, what stands in the way.

use crate::output::Failure;
use freezeframe_monitor::StartError;
use freezeframe_unwind::process::ProcessId;
use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;

/// `e_ident` of an ELF file for 64 bits, and the machine that this command is for.
const ELF_64: &[u8] = b"\x7fELF\x02";
const MACHINE: u16 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
/// A flag of the kernel's own threads, in `stat`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// A process's name.
pub(super) fn name(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).map_or_else(|_| "?".into(), |name| name.trim_end().into())
}

/// Whether it has not ended yet.
pub(super) fn is_there(process: ProcessId) -> bool {
    process
        .number()
        .is_some_and(|pid| status_field(pid, "State:").is_some_and(|state| !state.starts_with('Z')))
}

/// # Errors
/// What stands in the way of watching it.
pub(super) fn check(pid: i32) -> Result<(), Failure> {
    let failure = |text: String| Err(Failure::Message(text));
    if pid as u32 == std::process::id() {
        return failure("a process does not watch itself in this way".into());
    }
    let Some(state) = status_field(pid, "State:") else {
        return failure(format!("there is no process {pid}"));
    };
    if state.starts_with('Z') {
        return failure(format!("process {pid} has ended, and waits for its parent to hear of that"));
    }
    match status_field(pid, "Tgid:") {
        Some(leader) if leader != pid.to_string() => {
            return failure(format!("{pid} is a thread of process {leader}: attach to that"));
        }
        _ => {}
    }
    if flags(pid).is_some_and(|flags| flags & KERNEL_THREAD != 0) {
        return failure(format!("{pid} ({}) is a thread of the kernel's, which runs no program", name(pid)));
    }
    if let Some(tracer) = tracer(pid) {
        return failure(format!(
            "process {pid} is traced by process {tracer} ({}), and has room for one tracer: end that first",
            name(tracer)
        ));
    }
    let mut head = [0; 20];
    match fs::File::open(format!("/proc/{pid}/exe")).and_then(|mut file| file.read_exact(&mut head)) {
        Ok(()) if !head.starts_with(ELF_64) || head[18..20] != MACHINE.to_le_bytes() => {
            failure(format!("process {pid} runs a program for another machine than this command is for"))
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            failure(format!("process {pid} cannot be watched: {}", denied(pid)))
        }
        _ => Ok(()),
    }
}

/// Why a monitor of a process did not start, in words that help.
pub(super) fn why_not(process: ProcessId, error: &StartError) -> String {
    match (process.number(), error) {
        (Some(pid), StartError::System(error)) if error.kind() == ErrorKind::PermissionDenied => denied(pid),
        (_, error) => error.to_string(),
    }
}

/// What the kernel does not say when it says no.
fn denied(pid: i32) -> String {
    let owner = fs::metadata(format!("/proc/{pid}")).map(|facts| facts.uid()).ok();
    let own = rustix::process::geteuid().as_raw();
    let yama = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let yama: u32 = yama.ok().and_then(|scope| scope.trim().parse().ok()).unwrap_or(0);
    match (owner, yama) {
        (Some(owner), _) if owner != own && own != 0 => format!(
            "it is another user's ({owner}, this is {own}), or runs with rights that you do not have: watch it as that user or as root"
        ),
        (_, 1) if own != 0 => "Yama lets a process be looked into by its ancestors only (kernel.yama.ptrace_scope is 1): start it \
             with `freezeframe run`, or as root, or set that to 0"
            .into(),
        (_, 2) => "Yama lets processes be looked into by administrators only (kernel.yama.ptrace_scope is 2): be one".into(),
        (_, 3) => "Yama lets nobody look into processes until the next boot (kernel.yama.ptrace_scope is 3)".into(),
        _ => "the kernel does not let this command look into it: it may have asked for that (PR_SET_DUMPABLE), or a container \
              forbids it (seccomp, a namespace without CAP_SYS_PTRACE)"
            .into(),
    }
}

fn tracer(pid: i32) -> Option<i32> {
    status_field(pid, "TracerPid:")?.parse().ok().filter(|tracer| *tracer != 0)
}

fn status_field(pid: i32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
}

/// The ninth field of `stat`.
fn flags(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(6)?.parse().ok()
}
