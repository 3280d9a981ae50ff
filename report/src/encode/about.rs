//! What a record says beside its threads.

use super::{Crash, Told, Vitals};

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A run loop that did not turn.
    Freeze = 1,
    /// A signal that ends the program.
    Crash = 2,
    /// A run loop that turns, but never waits.
    NeverIdle = 3,
    /// A process that takes much of the processors for long.
    CpuHigh = 4,
}

/// How it was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Strategy {
    /// By the run loop's activities.
    RunLoop = 1,
    /// By a ping that was not answered.
    Ping = 2,
    /// By the signal's handler.
    Signal = 3,
    /// By the process's CPU time.
    CpuTime = 4,
    /// By looking at its thread from outside.
    Peek = 5,
}

/// What the program has told of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AppState {
    /// Nothing.
    #[default]
    Unknown = 0,
    /// Somebody looks at it.
    Foreground = 1,
    /// Nobody sees it.
    Background = 2,
}

impl AppState {
    /// The state of that number.
    pub const fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Foreground,
            2 => Self::Background,
            _ => Self::Unknown,
        }
    }
}

/// What happened when. Times are nanoseconds of the monotonic clock unless they say otherwise.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Identifies the record.
    pub uuid: [u8; 16],
    /// What the record is about.
    pub kind: Kind,
    /// How it was noticed.
    pub strategy: Strategy,
    /// Which signal it was, of a crash.
    pub crash: Option<Crash<'a>>,
    /// Which part of the program was watched.
    pub component: &'a str,
    /// The last activity of the run loop, a `CFRunLoopActivity` value; zero for a ping.
    pub activity: u8,
    /// When it was detected, by the wall clock: nanoseconds since 1970.
    pub wall_ns: u64,
    /// The last sign of life: the last transition of the run loop, or when the ping was sent.
    pub started_ns: u64,
    /// When the watcher found the threshold passed.
    pub detected_ns: u64,
    /// The same on the clock that goes on while the system sleeps, since the boot; zero: not known.
    pub continuous_ns: u64,
    /// How much of the time between does not count, because the watcher was stopped or starved itself.
    pub discounted_ns: u64,
    /// One timeout.
    pub interval_ns: u64,
    /// How many timeouts in a row make a freeze.
    pub misses: u32,
    /// Ticks that came too late to count, since the monitor was started.
    pub late_ticks: u64,
    /// How often the watcher has woken up since it was started.
    pub wakeups: u64,
    /// The boot: Linux's `/proc/sys/kernel/random/boot_id`, Apple's `kern.bootsessionuuid`.
    pub boot_id: [u8; 16],
    /// The process.
    pub process: Process<'a>,
    /// The machine.
    pub system: System<'a>,
    /// What the program told of itself.
    pub told: Told<'a>,
    /// How the process and its machine were, if that was looked at.
    pub vitals: Option<Vitals>,
}

/// Which process it was. Strings are bytes as the system gives them, mostly UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct Process<'a> {
    /// Its id.
    pub pid: u32,
    /// Its parent's id.
    pub parent: u32,
    /// Its parent's name.
    pub parent_name: &'a [u8],
    /// When it began, in its system's unit: see [`Owner`](crate::ring::Owner).
    pub start_ticks: u64,
    /// Its name.
    pub name: &'a [u8],
    /// The path of its executable.
    pub path: &'a [u8],
    /// The program's identifier, as the program tells it.
    pub app: &'a str,
    /// The program's version, as the program tells it.
    pub version: &'a str,
    /// Whether a debugger was attached.
    pub debugged: bool,
    /// Whether somebody was looking.
    pub app_state: AppState,
    /// Whether it was made for another architecture than the machine's, and was translated (Rosetta).
    pub translated: bool,
    /// CPU time of all its threads so far, ended ones included; zero: not known.
    pub cpu_ns: u64,
    /// How much memory it takes. Linux: its resident set. Apple: its physical footprint. Zero: not known.
    pub footprint_bytes: u64,
}

/// Which machine it was.
#[derive(Clone, Copy, Debug)]
pub struct System<'a> {
    /// The operating system's name and version.
    pub os: &'a [u8],
    /// The operating system's build, if it has such a name: `24D70`.
    pub build: &'a [u8],
    /// The kernel's release.
    pub kernel: &'a [u8],
    /// The hardware's model.
    pub model: &'a [u8],
    /// Processors.
    pub cores: u32,
    /// Bytes in a page.
    pub page_bytes: u32,
    /// The machine's memory; zero: not known.
    pub memory_bytes: u64,
}
