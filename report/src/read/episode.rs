//! How severe a freeze was, and what caused it.

use super::cursor::Cursor;
use super::decode::run_state;
use crate::encode::{Cause, Severity, labels};
use serde::Serialize;

/// How severe a freeze was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeverityLevel {
    /// Nobody felt it.
    None,
    /// A stutter.
    Micro,
    /// A freeze.
    Freeze,
    /// A long freeze.
    Severe,
    /// The system would have called the program unresponsive.
    Unresponsive,
    /// Of a kind that this version does not know.
    Unknown,
}

/// Why a loop did not turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CauseKind {
    /// Its thread computed.
    CpuBound,
    /// Its thread waited for a lock.
    Lock,
    /// Its thread waited for a file, a device or a pipe.
    Io,
    /// Its thread slept.
    Sleeping,
    /// Its thread waited for a child process.
    Child,
    /// Its thread waited for another thread, process or machine.
    Peer,
    /// Its thread waited for events: a false alarm.
    Idle,
    /// Its thread got no processor.
    Starved,
    /// That is not known.
    Unknown,
}

/// What was known of a freeze at its end, or when that was last written down.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EpisodeInfo {
    /// How severe it was.
    pub severity: SeverityLevel,
    /// Why.
    pub cause: CauseKind,
    /// What the cause is concluded from.
    pub evidence: Vec<EvidenceInfo>,
    /// In a loop nested in another: `nested`; announced by the program: `expected`; partly while the process was stopped:
    /// `stopped`; in the background: `background`; under a debugger: `debugged`.
    pub labels: Vec<&'static str>,
    /// How many runs of the loop were nested in each other.
    pub depth: u32,
    /// CPU time of the watched thread since it was first looked at.
    pub cpu_ns: u64,
    /// The time in which it was spent.
    pub window_ns: u64,
    /// Why the program expected to block.
    pub expected: Option<String>,
}

/// One piece of evidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EvidenceInfo {
    /// What it is.
    pub kind: &'static str,
    /// Its numbers; see `FORMAT.md`.
    pub numbers: [u64; 2],
    /// Its name.
    pub name: String,
    /// The same in words.
    pub text: String,
}

pub(super) fn episode(c: &mut Cursor<'_>) -> Option<EpisodeInfo> {
    let (severity, cause) = (c.u8()?, c.u8()?);
    let (label_bits, depth, cpu_ns, window_ns) = (c.u32()?, c.u32()?, c.u64()?, c.u64()?);
    let expected = Some(c.text()?).filter(|why| !why.is_empty());
    let count = c.u16()?;
    let evidence = (0..count).map(|_| evidence(c)).collect::<Option<Vec<_>>>()?;
    const LABELS: [(u32, &str); 5] = [
        (labels::NESTED, "nested"),
        (labels::EXPECTED, "expected"),
        (labels::STOPPED, "stopped"),
        (labels::BACKGROUND, "background"),
        (labels::DEBUGGED, "debugged"),
    ];
    Some(EpisodeInfo {
        severity: severity_of(severity),
        cause: cause_of(cause),
        evidence,
        labels: LABELS.iter().filter(|(bit, _)| label_bits & bit != 0).map(|(_, name)| *name).collect(),
        depth,
        cpu_ns,
        window_ns,
        expected,
    })
}

fn severity_of(code: u8) -> SeverityLevel {
    const ALL: [(Severity, SeverityLevel); 5] = [
        (Severity::None, SeverityLevel::None),
        (Severity::Micro, SeverityLevel::Micro),
        (Severity::Freeze, SeverityLevel::Freeze),
        (Severity::Severe, SeverityLevel::Severe),
        (Severity::Unresponsive, SeverityLevel::Unresponsive),
    ];
    let found = ALL.iter().find(|(severity, _)| *severity as u8 == code);
    found.map_or(SeverityLevel::Unknown, |(_, level)| *level)
}

fn cause_of(code: u8) -> CauseKind {
    match Cause::from_code(code) {
        Cause::CpuBound => CauseKind::CpuBound,
        Cause::Lock => CauseKind::Lock,
        Cause::Io => CauseKind::Io,
        Cause::Sleeping => CauseKind::Sleeping,
        Cause::Child => CauseKind::Child,
        Cause::Peer => CauseKind::Peer,
        Cause::Idle => CauseKind::Idle,
        Cause::Starved => CauseKind::Starved,
        Cause::Unknown => CauseKind::Unknown,
    }
}

fn evidence(c: &mut Cursor<'_>) -> Option<EvidenceInfo> {
    let (code, a, b, name) = (c.u8()?, c.u64()?, c.u64()?, c.text()?);
    let ms = |ns: u64| format!("{:.0} ms", ns as f64 / 1e6);
    let share = || if b == 0 { 0.0 } else { a as f64 * 100.0 / b as f64 };
    let (kind, text) = match code {
        1 => ("cpu-share", format!("{:.0} % of a processor ({} in {})", share(), ms(a), ms(b))),
        2 => ("state", format!("{} when it was looked at", run_state(a as u8))),
        3 => ("system-call", format!("in system call {a} ({name}), first argument {b:#x}")),
        4 => ("function", format!("{name} is on the stack, frame {a}")),
        5 => ("run-queue", format!("waited {} of {} for a processor", ms(a), ms(b))),
        6 => ("late-ticks", format!("the watcher itself was {a} times too late")),
        7 => ("word", format!("waits for the word at {a:#x} while it is {b}")),
        8 => ("descriptor", format!("descriptor {a} is {name}")),
        9 => ("timeout", format!("the wait ends by itself after {}", ms(a))),
        10 => ("thread", format!("thread {a} has computed for {}", ms(b))),
        11 if b == 0 => ("lock", format!("waits for the {name} at {a:#x}")),
        11 => ("lock", format!("waits for the {name} at {a:#x}, which thread {b} holds")),
        12 => ("note", name.clone()),
        _ => ("unknown", format!("evidence {code}: {a}, {b} {name}")),
    };
    Some(EvidenceInfo { kind, numbers: [a, b], name, text })
}
