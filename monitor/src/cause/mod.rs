//! Why a loop does not turn.
//!
//! ```text
//! a look at the thread: CPU time, state, system call, stack ──▶ names ──▶ classify (pure, by tables) ──▶ Finding
//!                                                                                                          │ weighed by its time
//!                                                                               the heaviest ◀── Causes ◀──┘
//! ```
//!
//! `calls` and `functions` are the tables; `arguments` and `frames` say what a call waits for and which functions wait. Another kind of evidence begins in `classify`; who owns a lock that is waited
//! for is to be found from the word in the evidence.

mod arguments;
mod calls;
mod classify;
mod descriptor;
mod frames;
mod functions;
mod names;
mod run_queue;

pub(crate) use classify::Finding;
pub(crate) use names::{Names, Symbols};
pub(crate) use run_queue::waited_ns;

use crate::subject::{self, Subject};
use calls::Wait;
use classify::{Seen, classify};
use frames::{FromFile, Functions};
use freezeframe_arch::Architecture;
use freezeframe_report::encode::Cause;
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::locks::{LockKind, LockWait};
use freezeframe_unwind::rule::FrameAddress;
use freezeframe_unwind::snapshot::ThreadCapture;
use freezeframe_unwind::walk::Frame;

/// What looking at another process needs of the tables.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) mod tables {
    pub(crate) use super::calls::{Wait, find as system_call};
    pub(crate) use super::classify::Descriptor;
    pub(crate) use super::descriptor::of as descriptor_of;
    pub(crate) use super::frames::{FromFile, Functions};
    pub(crate) use super::functions::{FRAMES, Role};
}

/// How many causes there are.
const CAUSES: usize = 9;

/// The causes that looks have found, with the time that each stands for.
#[derive(Debug)]
pub(crate) struct Causes {
    time_ns: [u64; CAUSES],
    latest: [Finding; CAUSES],
}

impl Causes {
    pub(crate) const fn new() -> Self {
        Self { time_ns: [0; CAUSES], latest: [Finding::NOTHING; CAUSES] }
    }

    /// Notes what a look has found.
    pub(crate) fn note(&mut self, finding: Finding, time_ns: u64) {
        let at = finding.cause as usize;
        self.time_ns[at] = self.time_ns[at].saturating_add(time_ns.max(1));
        self.latest[at] = finding;
    }

    /// The finding that the most time stands for. One that says nothing leads only where there is no other.
    pub(crate) fn heaviest(&self) -> &Finding {
        let known = (1..CAUSES).filter(|at| self.time_ns[*at] > 0).max_by_key(|at| self.time_ns[*at]);
        &self.latest[known.unwrap_or(Cause::Unknown as usize)]
    }
}

/// What there is to know of a look, beside the thread itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances {
    pub(crate) window_ns: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) overall_percent: u64,
    pub(crate) run_queue_ns: Option<u64>,
    pub(crate) late_ticks: u64,
    pub(crate) loop_waits: Option<bool>,
}

/// Finds the cause that one look at a thread shows: `frames` are those of its stack, and `lookup` gives
/// the address to look up of each.
pub(crate) fn investigate(
    subject: Subject,
    circumstances: &Circumstances,
    thread: &ThreadCapture,
    frames: &[Frame],
    lookup: impl Fn(FrameAddress) -> u64,
    images: &ImageTable,
    names: &mut Names,
) -> Finding {
    let (facts, mut memory) = (&thread.facts, subject::memory(subject));
    let lookups = frames.iter().map(|frame| lookup(frame.address));
    let number = facts.system_call.and_then(|call| calls::find(Architecture::NATIVE, call.number));
    let from_file = match number {
        // Who waits for a word may do so for anything: there names matter most.
        Some((_, Wait::Futex)) => FromFile::Everybody,
        Some((_, Wait::Events)) => FromFile::Caller,
        _ => FromFile::Nobody,
    };
    let functions = Functions::find(subject, from_file, images, &mut memory, names, lookups);
    let wait = facts.system_call.and_then(|call| {
        let (name, wait) = number?;
        let is_empty = |number| descriptor::watches_nothing(subject, number);
        Some((name, arguments::refine(&call, (name, wait), &mut memory, is_empty)?))
    });
    let descriptor = match (facts.system_call, wait) {
        (Some(call), Some((_, Wait::Descriptor))) => descriptor::of(subject, call.arguments[0]),
        _ => None,
    };
    classify(&Seen {
        window_ns: circumstances.window_ns,
        cpu_ns: circumstances.cpu_ns,
        overall_percent: circumstances.overall_percent,
        run_queue_ns: circumstances.run_queue_ns,
        late_ticks: circumstances.late_ticks,
        state: facts.state,
        call: facts.system_call,
        wait,
        descriptor,
        lock: thread.lock,
        at_own_word: facts
            .system_call
            .is_some_and(|call| functions.has_in_c_library(call.arguments[0], frames)),
        loop_waits: circumstances.loop_waits,
        functions: functions.as_slice(),
    })
}

/// Whether a thread waits for the lock that its words look like: those that do not say whose they are may be something else, and
/// functions know better.
pub(crate) fn waits_for_lock(
    subject: Subject,
    thread: &ThreadCapture,
    lookups: impl Iterator<Item = u64>,
    images: &ImageTable,
    names: &mut Names,
) -> bool {
    let is_doubtful = |lock: &LockWait| {
        matches!(lock.kind, LockKind::RustMutex | LockKind::RustReadWrite | LockKind::Other)
    };
    if !thread.lock.as_ref().is_some_and(is_doubtful) {
        return true;
    }
    let mut memory = subject::memory(subject);
    let functions = Functions::find(subject, FromFile::Everybody, images, &mut memory, names, lookups);
    functions.waits().is_none_or(|known| known.role != functions::Role::Peer)
}
