//! How severe a freeze is, what caused it, and what that is concluded from.

use super::writer::Writer;

/// How severe a freeze is, by its duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Severity {
    /// Below all limits: something was noticed that nobody feels.
    None = 0,
    /// A stutter.
    Micro = 1,
    /// A freeze.
    Freeze = 2,
    /// A long freeze.
    Severe = 3,
    /// The system would call the program unresponsive (ANR).
    Unresponsive = 4,
}

/// Why a loop does not turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Cause {
    /// Nothing that is known speaks for any of the others.
    #[default]
    Unknown = 0,
    /// Its thread computes.
    CpuBound = 1,
    /// Its thread waits for a lock.
    Lock = 2,
    /// Its thread waits for a file, a device or a pipe.
    Io = 3,
    /// Its thread sleeps for a set time.
    Sleeping = 4,
    /// Its thread waits for a child process.
    Child = 5,
    /// Its thread waits for somebody else: another thread, another process, another machine.
    Peer = 6,
    /// Its thread waits for events, as a loop should: a false alarm.
    Idle = 7,
    /// Its thread could run, but got no processor.
    Starved = 8,
}

impl Cause {
    /// The cause of that number.
    pub const fn from_code(code: u8) -> Self {
        match code {
            1 => Self::CpuBound,
            2 => Self::Lock,
            3 => Self::Io,
            4 => Self::Sleeping,
            5 => Self::Child,
            6 => Self::Peer,
            7 => Self::Idle,
            8 => Self::Starved,
            _ => Self::Unknown,
        }
    }
}

/// What a piece of evidence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EvidenceKind {
    /// The thread's CPU time, and the time in which it was spent; nanoseconds.
    CpuShare = 1,
    /// The scheduler's state of the thread in most samples, a number as of a thread.
    State = 2,
    /// The system call in most samples: number and first argument, with its name.
    SystemCall = 3,
    /// A function on the stack that says what is waited for: its frame's number, with its name.
    Function = 4,
    /// How long the thread waited for a processor, and in which time; nanoseconds.
    RunQueue = 5,
    /// Ticks of the watcher that came too late in this freeze.
    LateTicks = 6,
    /// The word that a wait is for: its address, and its value that is waited on.
    Word = 7,
    /// The descriptor that the system call is about: its number, with what it is open for.
    Descriptor = 8,
    /// The wait ends by itself, after so many nanoseconds.
    Timeout = 9,
    /// A thread that takes much of the processors: its id, and its CPU time in nanoseconds.
    Thread = 10,
    /// The lock that is waited for: its address, and the id of the thread that holds it or zero, with its kind.
    Lock = 11,
    /// A sentence.
    Note = 12,
}

/// One piece of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence<'a> {
    /// What it is.
    pub kind: EvidenceKind,
    /// Its numbers, by its kind.
    pub a: u64,
    /// The second.
    pub b: u64,
    /// Its text, if it has one.
    pub text: &'a [u8],
}

/// Bits of what a freeze is labelled with.
pub mod labels {
    /// It was in a loop nested in another: a modal dialogue, a tracking loop.
    pub const NESTED: u32 = 1;
    /// The program had announced that it would block, for as long.
    pub const EXPECTED: u32 = 2;
    /// Part of it went by while the process was stopped, or the system slept.
    pub const STOPPED: u32 = 4;
    /// The program was in the background.
    pub const BACKGROUND: u32 = 8;
    /// A debugger was attached.
    pub const DEBUGGED: u32 = 16;
}

/// What is known of a freeze, and changes while it lasts.
#[derive(Clone, Copy, Debug)]
pub struct Episode<'a> {
    /// How severe it is by now.
    pub severity: Severity,
    /// Why.
    pub cause: Cause,
    /// A sum of [`labels`].
    pub labels: u32,
    /// How many runs of the loop were nested in each other.
    pub depth: u32,
    /// CPU time of the watched thread since it was first looked at, in nanoseconds, and how long ago that was.
    pub cpu_ns: u64,
    /// The time in which it was spent.
    pub window_ns: u64,
    /// Why the program expected to block; empty if it did not.
    pub expected: &'a str,
    /// What the cause is concluded from.
    pub evidence: &'a [Evidence<'a>],
}

pub(super) fn write_episode(w: &mut Writer<'_>, episode: &Episode<'_>) {
    w.u8(episode.severity as u8);
    w.u8(episode.cause as u8);
    w.u32(episode.labels);
    w.u32(episode.depth);
    w.u64(episode.cpu_ns);
    w.u64(episode.window_ns);
    w.string(episode.expected.as_bytes());
    w.u16(episode.evidence.len() as u16);
    for evidence in episode.evidence {
        w.u8(evidence.kind as u8);
        w.u64(evidence.a);
        w.u64(evidence.b);
        w.string(evidence.text);
    }
}
