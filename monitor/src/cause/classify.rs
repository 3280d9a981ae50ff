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

use super::calls::Wait;
use super::functions::{Known, Role};
use freezeframe_report::encode::{Cause, Evidence, EvidenceKind};
use freezeframe_unwind::locks::{LockKind, LockWait, Owner};
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
    /// The call's name, and what it waits for by its arguments; none if that is not known.
    pub(crate) wait: Option<(&'static str, Wait)>,
    /// What the call's first argument is open for, if it is a descriptor.
    pub(crate) descriptor: Option<Descriptor>,
    /// The lock that it waits for, as far as the lock's own words tell.
    pub(crate) lock: Option<LockWait>,
    /// Whether the word that it waits for is a local variable of the C library's function that waits.
    pub(crate) at_own_word: bool,
    /// Whether the loop waits for events, as it says itself; none if it does not say.
    pub(crate) loop_waits: Option<bool>,
    /// The functions of the table among the innermost frames, each with its frame's number; of loops only those that wait
    /// there, as far as the frames tell.
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
    pub(super) const WAIT: u64 = 0;
    pub(super) const WAIT_BITSET: u64 = 9;
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
    if seen.loop_waits == Some(true) {
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
    let state = |cause| {
        let finding = Finding::new(cause).with(EvidenceKind::State, seen.state as u64, 0, "");
        let unknown = seen.call.filter(|_| seen.wait.is_none());
        unknown.map_or(finding, |call| {
            finding.with(EvidenceKind::SystemCall, call.number.into(), call.arguments[0], "not in the table")
        })
    };
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
    let (call, (name, wait)) = (seen.call?, seen.wait?);
    let [first, _, value, fourth, ..] = call.arguments;
    let cause = match wait {
        Wait::Sleep => Cause::Sleeping,
        Wait::Child => Cause::Child,
        Wait::Io => Cause::Io,
        Wait::Peer => Cause::Peer,
        Wait::Descriptor if seen.descriptor == Some(Descriptor::Socket) => Cause::Peer,
        Wait::Descriptor => Cause::Io,
        Wait::FileLock => Cause::Lock,
        Wait::Spawn => return None,
        Wait::Events => of_events(seen),
        Wait::Futex => of_futex(seen, &call),
    };
    let mut finding = Finding::new(cause).with(EvidenceKind::SystemCall, call.number.into(), first, name);
    if let Some(descriptor) = seen.descriptor {
        finding = finding.with(EvidenceKind::Descriptor, first, 0, descriptor.name());
    }
    if wait == Wait::FileLock {
        finding = finding.with(EvidenceKind::Descriptor, first, 0, "a file whose lock is waited for");
    }
    if wait == Wait::Futex {
        finding = finding.with(EvidenceKind::Word, first, value & 0xffff_ffff, "");
    }
    if wait == Wait::Futex && is_kept_waiting(seen, &call) {
        finding = finding.with(EvidenceKind::Note, 0, 0, KEPT_WAITING);
    }
    if let Some(lock) = seen.lock.filter(|_| cause == Cause::Lock) {
        let holder = lock.holder().map_or(0, |thread| thread.0 as u32);
        finding = finding.with(EvidenceKind::Lock, lock.address, holder.into(), lock.kind.name());
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

/// Who waits for events: the loop, if it is known to wait or nothing speaks against that; else whoever has called the system.
fn of_events(seen: &Seen<'_>) -> Cause {
    if has(seen, Role::Spawn).is_some() {
        Cause::Child
    } else if seen.loop_waits.is_none() && has(seen, Role::Sync).is_none() && has(seen, Role::Loop).is_some()
    {
        Cause::Idle
    } else {
        Cause::Peer
    }
}

const KEPT_WAITING: &str =
    "the C library lets it wait: it cannot get a lock without a deadlock, or from an owner that has ended";

/// Of a mutex whose owner inherits priorities, the kernel tells who would wait for good. glibc then waits for a variable of its
/// own to change from zero, which nobody else knows of (`pthread_mutex_lock.c`); for nothing else does it wait in this way.
fn is_kept_waiting(seen: &Seen<'_>, call: &SystemCall) -> bool {
    let [_, operation, value, ..] = call.arguments;
    seen.at_own_word && operation & futex::COMMAND == futex::WAIT_BITSET && value as u32 == 0
}

/// A lock, or another thread's word: by the lock itself if it says whose it is, by the functions that wait, by a lock's shape,
/// and else by the value that is waited on.
fn of_futex(seen: &Seen<'_>, call: &SystemCall) -> Cause {
    let [_, operation, value, timeout, ..] = call.arguments;
    let command = operation & futex::COMMAND;
    if matches!(command, futex::LOCK_PI | futex::LOCK_PI2 | futex::WAIT_REQUEUE_PI) {
        return Cause::Lock;
    }
    if is_kept_waiting(seen, call) {
        return Cause::Lock;
    }
    // That it is a thread's end which is waited for, is for the functions to say: it is held by nobody.
    let lock = seen.lock.filter(|lock| lock.kind != LockKind::ThreadEnd);
    if lock.is_some_and(|lock| matches!(lock.owner, Owner::Thread(_) | Owner::Ended(_))) {
        return Cause::Lock;
    }
    // The innermost of them: a condition's wait may itself wait for its lock.
    let waits = seen.functions.iter().find(|(_, known)| matches!(known.role, Role::Lock | Role::Peer));
    match waits {
        Some((_, Known { role: Role::Lock, .. })) => Cause::Lock,
        Some(_) => Cause::Peer,
        None if lock.is_some() => Cause::Lock,
        None => match value as u32 {
            // glibc's and Rust's mutexes: taken, and somebody waits. Who sets a time by the second command is no mutex of
            // Rust's, and one of glibc's would have said whose it is.
            2 if command == futex::WAIT || timeout == 0 => Cause::Lock,
            // Rust's parker.
            u32::MAX => Cause::Peer,
            // Rust's rwlock: readers or writers wait, in the two highest bits.
            v if v >= 1 << 30 => Cause::Lock,
            _ => Cause::Peer,
        },
    }
}

/// Where the system does not tell of calls: by the innermost of the functions near where the thread stands.
fn by_function(seen: &Seen<'_>) -> Option<Finding> {
    if seen.state == RunState::Running {
        return None;
    }
    // A call that the table does not know is none by which events are waited for.
    let is_for_events = |known: &Known| matches!(known.role, Role::Loop | Role::Events);
    let tells = |(_, known): &&(u32, Known)| seen.call.is_none() || !is_for_events(known);
    let (frame, known) = *seen.functions.iter().find(tells)?;
    let cause = match known.role {
        Role::Lock => Cause::Lock,
        Role::Peer => Cause::Peer,
        Role::Sleep => Cause::Sleeping,
        Role::Child => Cause::Child,
        Role::Io => Cause::Io,
        Role::Loop | Role::Events | Role::Sync | Role::Spawn => of_events(seen),
    };
    let finding = Finding::new(cause).with(EvidenceKind::Function, frame.into(), 0, known.name);
    Some(if known.role == Role::Events { with_function(finding, seen, cause) } else { finding })
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
        Cause::Child => Role::Spawn,
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
