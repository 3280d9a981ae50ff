//! What a record says, for programs. Serialized, this is the JSON form; addresses and registers are hexadecimal strings,
//! since JSON's numbers lose bits.

use super::{CrashInfo, EpisodeInfo, SamplesInfo, ToldInfo, VitalsInfo};
use serde::{Serialize, Serializer};

pub(super) fn hex<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{value:#x}"))
}

fn hex_list<S: Serializer>(values: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|value| format!("{value:#x}")))
}

fn registers<S: Serializer>(values: &[(&'static str, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(values.iter().map(|(name, value)| (name, format!("{value:#x}"))))
}

/// One record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// Identifies the record.
    pub uuid: String,
    /// Its number in the file.
    pub sequence: u64,
    /// Its slot in the file.
    pub slot: usize,
    /// Every byte of the record was there and had the right checksum.
    pub complete: bool,
    /// What was not, in words.
    pub faults: Vec<String>,
    /// What it is about.
    pub kind: RecordKind,
    /// How it was noticed.
    pub strategy: RecordStrategy,
    /// Which signal it was, of a crash; none in a record that is cut off before it.
    pub crash: Option<CrashInfo>,
    /// Which part of the program was watched.
    pub component: String,
    /// The last activity of the run loop, by its `CFRunLoopActivity` name; none for a ping.
    pub last_activity: Option<&'static str>,
    /// How the freeze ended.
    pub outcome: RecordOutcome,
    /// How long it lasted, or had lasted when that was last written down.
    pub duration_ns: u64,
    /// Later freezes with the same stack that this record stands for as well.
    pub repeats: Repeats,
    /// How severe it is and what caused it; none in a record of an earlier version.
    pub episode: Option<EpisodeInfo>,
    /// What the watched thread did meanwhile; none in a record of an earlier version.
    pub samples: Option<SamplesInfo>,
    /// What the program told of itself; none if it told nothing.
    pub told: Option<ToldInfo>,
    /// How the process and its machine were; none in a record of an earlier version, or of a crash.
    pub vitals: Option<VitalsInfo>,
    /// What happened when.
    pub times: Times,
    /// Whether its threads show one moment.
    pub set: SetInfo,
    /// What counts as a freeze.
    pub threshold: Threshold,
    /// Ticks of the watcher that came too late to count.
    pub late_ticks: u64,
    /// How often the watcher had woken up.
    pub wakeups: u64,
    /// The boot.
    pub boot_id: String,
    /// Bits of return addresses that hold authentication codes.
    #[serde(serialize_with = "hex")]
    pub pac_mask: u64,
    /// The architecture: `x86_64` or `arm64`.
    pub architecture: &'static str,
    /// The process; none in a record that is cut off before it.
    pub process: Option<ProcessInfo>,
    /// The machine; none in a record that is cut off before it.
    pub system: Option<SystemInfo>,
    /// The threads; the one that was watched, or that has crashed, comes first.
    pub threads: Vec<Thread>,
    /// Whom the watched thread waits for, and whom that one, and so on, until one that waits for no lock of a known owner; if
    /// they wait in a ring, once round it.
    pub blocked_by: Vec<LockStep>,
    /// Every ring of threads that wait for one another: none of them will ever go on.
    pub deadlocks: Vec<Vec<LockStep>>,
    /// The images, by ascending index.
    pub images: Vec<Image>,
    /// What was left out for want of room; none in a record that is cut off.
    pub dropped: Option<Dropped>,
}

/// Later freezes with the same stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Repeats {
    /// How many.
    pub count: u32,
    /// How long they lasted, all together.
    pub duration_ns: u64,
    /// How long the latest of them, in the middle of which the record was read or the program was killed, had lasted; zero: it was
    /// not. The record's outcome is about that one, then.
    pub repeating_ns: u64,
}

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordKind {
    /// A run loop that did not turn.
    Freeze,
    /// A signal that has ended the program.
    Crash,
    /// A run loop that turned, but never waited.
    NeverIdle,
    /// A process that took much of the processors for long.
    CpuHigh,
    /// Something that this version does not know.
    Unknown,
}

/// How it was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordStrategy {
    /// By the run loop's activities.
    RunLoop,
    /// By a ping that was not answered.
    Ping,
    /// By the signal's handler.
    Signal,
    /// By the process's CPU time.
    CpuTime,
    /// By looking at its thread from outside.
    Peek,
    /// In a way that this version does not know.
    Unknown,
}

/// How a freeze ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordOutcome {
    /// It still goes on: its process is alive.
    Ongoing,
    /// The loop turned again.
    Recovered,
    /// The process ended in the middle of it.
    Killed,
    /// The monitor was stopped before the end.
    Unknown,
}

/// What happened when, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Times {
    /// When it was detected, by the wall clock, in UTC.
    pub wall: String,
    /// The same since 1970.
    pub wall_ns: u64,
    /// The last sign of life, on the monotonic clock, as all that follow.
    pub started_ns: u64,
    /// When the watcher found the threshold passed.
    pub detected_ns: u64,
    /// The same on the clock that goes on while the system sleeps, since the boot.
    pub continuous_ns: Option<u64>,
    /// How much of the time between was not counted: the watcher was stopped itself.
    pub discounted_ns: u64,
    /// How long after the threshold that was.
    pub detection_delay_ns: u64,
    /// When the capture began.
    pub capture_started_ns: u64,
    /// When the last thread was walked.
    pub capture_ended_ns: u64,
    /// How long threads were held, added up.
    pub held_total_ns: u64,
    /// The longest time that one thread was held.
    pub held_longest_ns: u64,
}

/// What counts as a freeze: so many timeouts in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Threshold {
    /// One timeout.
    pub interval_ns: u64,
    /// How many in a row.
    pub misses: u32,
}

/// Which process it was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessInfo {
    /// Its id.
    pub pid: u32,
    /// Its parent's id.
    pub parent: u32,
    /// Its parent's name.
    pub parent_name: String,
    /// When it began. Linux: in clock ticks of 10 ms since the boot. Apple: in microseconds since 1970.
    pub start_ticks: u64,
    /// Its name.
    pub name: String,
    /// The path of its executable.
    pub path: String,
    /// The program's identifier, as the program told it.
    pub app: String,
    /// The program's version, as the program told it.
    pub version: String,
    /// Whether a debugger was attached.
    pub debugged: bool,
    /// Whether somebody was looking, as the program told it: `foreground`, `background` or `unknown`.
    pub app_state: &'static str,
    /// Whether it was made for another architecture than the machine's, and was translated (Rosetta).
    pub translated: bool,
    /// CPU time of all its threads, ended ones included.
    pub cpu_ns: Option<u64>,
    /// How much memory it took. Linux: its resident set. Apple: its physical footprint.
    pub footprint_bytes: Option<u64>,
}

/// Which machine it was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SystemInfo {
    /// The operating system's name and version.
    pub os: String,
    /// The operating system's build; empty if it has no such name.
    pub build: String,
    /// The kernel's release.
    pub kernel: String,
    /// The hardware's model.
    pub model: String,
    /// Processors.
    pub cores: u32,
    /// Bytes in a page.
    pub page_bytes: u32,
    /// The machine's memory.
    pub memory_bytes: Option<u64>,
}

/// One thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Thread {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// It is the one that was watched, or that has crashed.
    pub watched: bool,
    /// It is the process's main thread.
    pub main: bool,
    /// The freeze had ended by the time it was stopped: the stack does not show the cause.
    pub moved: bool,
    /// The scheduler's state before it was stopped: `running`, `sleeping` and so on.
    pub state: &'static str,
    /// How it was held for its capture.
    pub held: HeldInfo,
    /// CPU time.
    pub cpu_ns: u64,
    /// CPU time in user mode, in clock ticks.
    pub user_ticks: u64,
    /// CPU time in kernel mode, in clock ticks.
    pub system_ticks: u64,
    /// The system call it was in.
    pub system_call: Option<SystemCall>,
    /// The lock it waited for, if it waited for one.
    pub lock: Option<LockInfo>,
    /// The end of its stack; zero if that is not known.
    #[serde(serialize_with = "hex")]
    pub stack_end: u64,
    /// How many copies its stack took.
    pub copies: u32,
    /// Its registers, by name; empty if it was not stopped.
    #[serde(serialize_with = "registers")]
    pub registers: Vec<(&'static str, u64)>,
    /// Why the walk ended.
    pub stop: Stop,
    /// Where the stack repeats.
    pub repeat: Option<Repeat>,
    /// After how many of the frames some are left out.
    pub omitted_after: u32,
    /// How many are left out there.
    pub omitted: u64,
    /// The frames, innermost first.
    pub frames: Vec<Frame>,
}

/// A lock that a thread waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LockInfo {
    /// What it is: `mutex`, `read-write lock` and so on.
    pub kind: &'static str,
    /// Where it is.
    #[serde(serialize_with = "hex")]
    pub address: u64,
    /// Who holds it.
    pub owner: LockOwner,
}

/// Who holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockOwner {
    /// The lock does not say.
    Unknown,
    /// A thread, by its id.
    Thread(u32),
    /// A thread that has ended without giving it back.
    Ended(u32),
    /// So many readers, whom the lock does not name.
    Readers(u32),
}

/// A thread that waits for a lock, and the thread that holds it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LockStep {
    /// The id of the thread that waits.
    pub thread: u32,
    /// What the lock is.
    pub kind: &'static str,
    /// Where it is.
    #[serde(serialize_with = "hex")]
    pub address: u64,
    /// The id of the thread that holds it.
    pub waits_for: u32,
}

/// How a thread was held.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeldInfo {
    /// In which way, or not.
    pub how: HeldHow,
    /// Why not; or, if it was held, why not in a better way.
    pub why_not: Option<String>,
    /// For how long.
    pub ns: u64,
}

/// Whether the threads were held at one time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetInfo {
    /// Whether they were.
    pub how: SetHow,
    /// Why not.
    pub why_not: Option<String>,
    /// For how long, from before the first was stopped until the last was let go.
    pub ns: u64,
}

/// Whether the threads were held at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SetHow {
    /// Each was read by itself, as was asked for.
    OneByOne,
    /// Those that were held by ptrace stood still at one time.
    Together,
    /// That was asked for, and could not be.
    NotTogether,
    /// In a way that this version does not know.
    Unknown,
}

/// The ways in which a thread can be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeldHow {
    /// Not at all: no registers, no frames.
    Not,
    /// By a signal, all the while.
    Signal,
    /// By Mach's `thread_suspend`, all the while.
    Mach,
    /// By a helper that traced it, all the while.
    Ptrace,
    /// Not at all, but it waited in the kernel all the while. Only two of its registers are known.
    Peek,
    /// By a signal, but not to the end: the stack may be torn.
    Torn,
    /// It was the capturing thread.
    Itself,
    /// In a way that this version does not know.
    Unknown,
}

/// A system call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SystemCall {
    /// Its number on the record's architecture.
    pub number: u32,
    /// Its arguments.
    #[serde(serialize_with = "hex_list")]
    pub arguments: Vec<u64>,
}

/// Why a walk ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stop {
    /// Its number; see `FORMAT.md`.
    pub code: u8,
    /// The address it is about, if any.
    #[serde(serialize_with = "hex")]
    pub address: u64,
    /// The same in words.
    pub text: String,
}

/// Where a stack repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Repeat {
    /// The innermost frame of the repeating part, counted over the whole stack.
    pub first: u64,
    /// How many frames make one round.
    pub period: u32,
    /// How many whole rounds there are.
    pub times: u64,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Frame {
    /// The address as it was found.
    #[serde(serialize_with = "hex")]
    pub pc: u64,
    /// The same without an authentication code.
    #[serde(serialize_with = "hex")]
    pub address: u64,
    /// The address to look up: inside the instruction that was executing.
    #[serde(serialize_with = "hex")]
    pub lookup: u64,
    /// The stack pointer in the frame.
    #[serde(serialize_with = "hex")]
    pub sp: u64,
    /// The index of its image in the process's table, as in [`Image::index`].
    pub image: Option<u32>,
    /// What the address is: `instruction`, `return` or `signal`.
    pub origin: &'static str,
    /// Where the address came from: `context`, `frame-pointer` and so on.
    pub trust: &'static str,
    /// The function, if its image's file was at hand.
    pub symbol: Option<Symbol>,
}

/// A function's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Symbol {
    /// The name, readable.
    pub name: String,
    /// How far the frame's address lies behind the function's start.
    pub offset: u64,
}

/// One image.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Image {
    /// Its index in the process's table, which frames refer to.
    pub index: u32,
    /// What it is: `elf`, `vdso`, `anonymous`, `mach-o`.
    pub kind: &'static str,
    /// Whose code it holds: the record's architecture, or a variant of it, `arm64e` or `x86_64h`.
    pub architecture: &'static str,
    /// It lay in dyld's shared cache: there is no file at its path.
    pub in_shared_cache: bool,
    /// Its path.
    pub path: String,
    /// Its build id in hexadecimal digits, also called its code id; empty if it has none.
    pub build_id: String,
    /// The debug id that symbol servers know it by; none without a build id.
    pub debug_id: Option<String>,
    /// Where it begins in memory.
    #[serde(serialize_with = "hex")]
    pub load_address: u64,
    /// How many bytes it takes.
    #[serde(serialize_with = "hex")]
    pub size: u64,
    /// What was added to the addresses in its file.
    #[serde(serialize_with = "hex")]
    pub slide: u64,
    /// Its executable ranges: start and size of each.
    pub code: Vec<(String, String)>,
}

/// What was left out for want of room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// Threads.
    pub threads: u32,
    /// Images.
    pub images: u32,
    /// Frames, beyond those that the depth left out.
    pub frames: u64,
}

impl Record {
    /// The image that a frame lies in.
    pub fn image(&self, frame: &Frame) -> Option<&Image> {
        Image::of(&self.images, frame)
    }

    /// Whether the thread that was watched waits, by way of others or not, for threads that will never go on.
    pub fn is_deadlock(&self) -> bool {
        let reached = |thread: u32| self.blocked_by.iter().any(|step| step.thread == thread);
        self.deadlocks.iter().flatten().any(|step| reached(step.thread))
    }

    /// The thread that was watched, or that has crashed.
    pub fn watched(&self) -> Option<&Thread> {
        self.threads.iter().find(|thread| thread.watched)
    }
}

impl Image {
    /// The image of a frame, among those of its record, which are sorted by index.
    pub(crate) fn of<'a>(images: &'a [Self], frame: &Frame) -> Option<&'a Self> {
        let wanted = frame.image?;
        images.binary_search_by_key(&wanted, |image| image.index).ok().and_then(|at| images.get(at))
    }

    /// The last part of its path.
    pub fn name(&self) -> &str {
        match self.path.rsplit('/').next() {
            Some("") | None => "[anonymous]",
            Some(name) => name,
        }
    }

    /// The debug id of a build id: its first 16 bytes as a UUID, of ELF with the first three fields in little-endian order.
    pub(super) fn debug_id_of(kind: &str, build_id: &[u8]) -> Option<String> {
        if build_id.is_empty() {
            return None;
        }
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(build_id).for_each(|(to, from)| *to = *from);
        let id = match kind {
            "mach-o" => uuid::Uuid::from_bytes(bytes),
            _ => uuid::Uuid::from_bytes_le(bytes),
        };
        Some(id.to_string())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_debug_id_swaps_the_first_three_fields_but_of_mach_o() {
        let build_id = [0xf1, 0xc3, 0xbc, 0xc0, 0x27, 0x98, 0x65, 0xfe, 0x30, 0x58];
        let debug_id = super::Image::debug_id_of("elf", &build_id);
        assert_eq!(debug_id.as_deref(), Some("c0bcc3f1-9827-fe65-3058-000000000000"));
        let debug_id = super::Image::debug_id_of("mach-o", &build_id);
        assert_eq!(debug_id.as_deref(), Some("f1c3bcc0-2798-65fe-3058-000000000000"));
        assert_eq!(super::Image::debug_id_of("elf", &[]), None);
    }
}
