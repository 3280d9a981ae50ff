//! From what one look at a thread shows to a cause, with the evidence. Pure.
//!
//! The rules in their order; the first that holds decides:
//!
//! | what is seen | cause |
//! |---|---|
//! | the loop says of itself that it waits | idle |
//! | half of the time or more on a processor, or most of it there and in line for one | computing |
//! | most of the time in line for a processor, nearly none on one | starved |
//! | a system call of the table, with its arguments and the functions that have made it | what it waits for |
//! | a function of the table near where the thread stands (where the system does not tell of calls) | what it waits for |
//! | a wait that no signal ends | input or output |
//! | running, but the watcher itself came late | starved |
//! | a fourth of the time on a processor | computing |

use super::calls::{self, Wait};
use super::functions::{Known, Role};
use freezeframe_arch::Architecture;
use freezeframe_report::encode::{Cause, Evidence, EvidenceKind};
use freezeframe_unwind::threads::{RunState, SystemCall};

/// What a descriptor is open for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Descriptor {
    File,
    Pipe,
    Socket,
    Device,
    Folder,
    Other,
}

impl Descriptor {
    const fn name(self) -> &'static str {
        match self {
            Self::File => "a file",
            Self::Pipe => "a pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Folder => "a folder",
            Self::Other => "something else",
        }
    }
}

/// What one look at a thread shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) architecture: Architecture,
    /// Since the look before.
    pub(crate) window_ns: u64,
    /// CPU time in it.
    pub(crate) cpu_ns: u64,
    /// CPU time since the first look of this silence, in percent of that time: whoever computes a little all the time
    /// computes, however little a single look shows.
    pub(crate) overall_percent: u64,
    /// Time in it that the thread waited for a processor; none if the system does not tell.
    pub(crate) run_queue_ns: Option<u64>,
    /// Ticks of the watcher in this silence that came too late.
    pub(crate) late_ticks: u64,
    pub(crate) state: RunState,
    pub(crate) call: Option<SystemCall>,
    /// What the call's first argument is open for, if it is a descriptor.
    pub(crate) descriptor: Option<Descriptor>,
    /// Whether the loop says of itself that it waits for events.
    pub(crate) loop_waits: bool,
    /// The functions of the table among the innermost frames, each with its frame's number.
    pub(crate) functions: &'a [(u32, Known)],
}

/// How many pieces of evidence a cause can have.
pub(crate) const EVIDENCE: usize = 6;

/// A cause and what it is concluded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) cause: Cause,
    evidence: [Evidence<'static>; EVIDENCE],
    count: usize,
}

impl Finding {
    pub(crate) const NOTHING: Self = Self::new(Cause::Unknown);

    pub(crate) const fn new(cause: Cause) -> Self {
        const EMPTY: Evidence<'static> = Evidence { kind: EvidenceKind::State, a: 0, b: 0, text: b"" };
        Self { cause, evidence: [EMPTY; EVIDENCE], count: 0 }
    }

    pub(crate) fn evidence(&self) -> &[Evidence<'static>] {
        self.evidence.get(..self.count).unwrap_or(&[])
    }

    pub(crate) fn with(mut self, kind: EvidenceKind, a: u64, b: u64, text: &'static str) -> Self {
        if let Some(slot) = self.evidence.get_mut(self.count) {
            *slot = Evidence { kind, a, b, text: text.as_bytes() };
            self.count += 1;
        }
        self
    }
}

/// `futex` operations that wait (linux/futex.h), without the flags above them.
mod futex {
    pub(super) const COMMAND: u64 = 127;
    pub(super) const LOCK_PI: u64 = 6;
    pub(super) const WAIT_REQUEUE_PI: u64 = 11;
    pub(super) const LOCK_PI2: u64 = 13;
}

/// Why the thread does not come back, as far as this look tells.
pub(crate) fn classify(seen: &Seen<'_>) -> Finding {
    let window = seen.window_ns.max(1);
    let share = |ns: u64| ns.saturating_mul(100) / window;
    let (cpu, queue) = (share(seen.cpu_ns), share(seen.run_queue_ns.unwrap_or(0)));
    let with_share = |finding: Finding| finding.with(EvidenceKind::CpuShare, seen.cpu_ns, seen.window_ns, "");
    let with_queue = |finding: Finding| match seen.run_queue_ns {
        Some(queue_ns) if queue >= 10 => finding.with(EvidenceKind::RunQueue, queue_ns, seen.window_ns, ""),
        _ => finding,
    };
    if seen.loop_waits {
        return with_share(Finding::new(Cause::Idle).with(EvidenceKind::State, seen.state as u64, 0, ""));
    }
    if cpu >= 50 || seen.overall_percent.max(cpu) >= 5 && cpu + queue >= 60 {
        return with_queue(with_share(Finding::new(Cause::CpuBound)));
    }
    // The first look: nothing is known of the time before.
    if seen.window_ns == 0 && seen.state == RunState::Running {
        return Finding::new(Cause::CpuBound).with(EvidenceKind::State, seen.state as u64, 0, "");
    }
    if queue >= 60 {
        return late(with_share(with_queue(Finding::new(Cause::Starved))), seen);
    }
    if let Some(finding) = by_call(seen).or_else(|| by_function(seen)) {
        return with_share(finding);
    }
    let state = |cause| Finding::new(cause).with(EvidenceKind::State, seen.state as u64, 0, "");
    match seen.state {
        RunState::Uninterruptible => with_share(state(Cause::Io)),
        RunState::Running if seen.late_ticks > 0 && cpu < 25 => late(with_share(state(Cause::Starved)), seen),
        _ if cpu >= 25 => with_queue(with_share(state(Cause::CpuBound))),
        _ => with_share(state(Cause::Unknown)),
    }
}

fn late(finding: Finding, seen: &Seen<'_>) -> Finding {
    match seen.late_ticks {
        0 => finding,
        ticks => finding.with(EvidenceKind::LateTicks, ticks, 0, ""),
    }
}

/// By the system call that it waits in.
fn by_call(seen: &Seen<'_>) -> Option<Finding> {
    let call = seen.call?;
    let (name, wait) = calls::find(seen.architecture, call.number)?;
    let [first, operation, value, fourth, ..] = call.arguments;
    let cause = match wait {
        Wait::Sleep => Cause::Sleeping,
        Wait::Child => Cause::Child,
        Wait::Io => Cause::Io,
        Wait::Peer => Cause::Peer,
        Wait::Descriptor if seen.descriptor == Some(Descriptor::Socket) => Cause::Peer,
        Wait::Descriptor => Cause::Io,
        Wait::Events if has(seen, Role::Sync).is_some() => Cause::Peer,
        Wait::Events if has(seen, Role::Loop).is_some() => Cause::Idle,
        Wait::Events => Cause::Peer,
        Wait::Futex => of_futex(seen, operation, value),
    };
    let mut finding = Finding::new(cause).with(EvidenceKind::SystemCall, call.number.into(), first, name);
    if let Some(descriptor) = seen.descriptor {
        finding = finding.with(EvidenceKind::Descriptor, first, 0, descriptor.name());
    }
    if wait == Wait::Futex {
        finding = finding.with(EvidenceKind::Word, first, value & 0xffff_ffff, "");
    }
    // In milliseconds, and negative for none, of those calls that have it in a register.
    let timeout = match name {
        "poll" => Some(value as i32),
        "epoll_wait" | "epoll_pwait" => Some(fourth as i32),
        _ => None,
    };
    if let Some(Ok(ms)) = timeout.map(u64::try_from) {
        finding = finding.with(EvidenceKind::Timeout, ms * 1_000_000, 0, "");
    }
    Some(with_function(finding, seen, cause))
}

/// A lock, or another thread's word: by the functions that wait; else by the value that is waited on.
fn of_futex(seen: &Seen<'_>, operation: u64, value: u64) -> Cause {
    if matches!(operation & futex::COMMAND, futex::LOCK_PI | futex::LOCK_PI2 | futex::WAIT_REQUEUE_PI) {
        return Cause::Lock;
    }
    // The innermost of them: a condition's wait may itself wait for its lock.
    let waits = seen.functions.iter().find(|(_, known)| matches!(known.role, Role::Lock | Role::Peer));
    match waits {
        Some((_, Known { role: Role::Lock, .. })) => Cause::Lock,
        Some(_) => Cause::Peer,
        None => match value as u32 {
            // glibc's and Rust's mutexes: taken, and somebody waits.
            2 => Cause::Lock,
            // Rust's parker.
            u32::MAX => Cause::Peer,
            // Rust's rwlock: readers or writers wait, in the two highest bits.
            v if v >= 1 << 30 => Cause::Lock,
            _ => Cause::Peer,
        },
    }
}

/// Where the system does not tell of calls: by the functions near where the thread stands.
fn by_function(seen: &Seen<'_>) -> Option<Finding> {
    if seen.state == RunState::Running {
        return None;
    }
    let (frame, known) = match has(seen, Role::Sync).or_else(|| has(seen, Role::Loop)) {
        Some(found) => *found,
        None => *seen.functions.first()?,
    };
    let cause = match known.role {
        Role::Lock => Cause::Lock,
        Role::Peer | Role::Sync => Cause::Peer,
        Role::Sleep => Cause::Sleeping,
        Role::Child => Cause::Child,
        Role::Io => Cause::Io,
        Role::Loop => Cause::Idle,
    };
    Some(Finding::new(cause).with(EvidenceKind::Function, frame.into(), 0, known.name))
}

fn has<'a>(seen: &Seen<'a>, role: Role) -> Option<&'a (u32, Known)> {
    seen.functions.iter().find(|(_, known)| known.role == role)
}

/// Adds the function that says the same as the system call.
fn with_function(finding: Finding, seen: &Seen<'_>, cause: Cause) -> Finding {
    let role = match cause {
        Cause::Lock => Role::Lock,
        Cause::Idle => Role::Loop,
        Cause::Peer => Role::Peer,
        _ => return finding,
    };
    let sync = has(seen, Role::Sync).filter(|_| role == Role::Peer);
    match sync.or_else(|| has(seen, role)) {
        Some((frame, known)) => finding.with(EvidenceKind::Function, (*frame).into(), 0, known.name),
        None => finding,
    }
}

#[cfg(test)]
mod tests;
