//! The ways of capturing, each with the kinds of calls that it may make.

use super::targets::Targets;
use freezeframe_arch::linux::{from_ucontext, ucontext_bytes};
use freezeframe_arch::{Architecture, Registers};
use freezeframe_monitor::crash::Reporter;
use freezeframe_report::encode::{About, AppState, Kind, Process, Strategy, System, Told, encode};
use freezeframe_report::file::{ReportFile, Size};
use freezeframe_report::layout::Outcome;
use freezeframe_report::ring::{Live, Owner};
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::init::{Config, init, pac_mask};
use freezeframe_unwind::memory::{ProcessMemory, StackCopy};
use freezeframe_unwind::rule::StackBounds;
use freezeframe_unwind::snapshot::{Held, Options, Snapshot};
use freezeframe_unwind::suspend::{Patience, Purpose, Registration, Suspender, Way, Ways};
use freezeframe_unwind::threads::ThreadId;
use freezeframe_unwind::walk::{Backtrace, Depth, Frame, FramePointerWalker, WalkContext, Walker};
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// One way of capturing.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// The kinds of calls, in the table of `docs/SAFETY.md`.
    pub(crate) kinds: &'static [&'static str],
    pub(crate) play: fn(&mut Stage),
    /// The process ends by this signal.
    pub(crate) dies: bool,
    /// What is done first, by a thread that is not watched.
    pub(crate) before: fn(),
    /// Calls that fail.
    pub(crate) refused: &'static [&'static str],
    pub(crate) registration: Registration,
}

/// With the kinds of calls that it may make.
const fn scenario(name: &'static str, kinds: &'static [&'static str], play: fn(&mut Stage)) -> Scenario {
    let (before, registration): (fn(), _) = (|| (), Registration::Leave);
    Scenario { name, kinds, play, dies: false, before, refused: &[], registration }
}

const ALL_WAYS: &[&str] = &["capture", "peek", "signal", "ptrace"];
const FULL: &[&str] = &["capture", "peek", "signal", "ptrace", "full"];

pub(crate) const SCENARIOS: &[Scenario] = &[
    scenario("peek", &["capture", "peek"], peek),
    scenario("signal", &["capture", "signal"], signal),
    scenario("ptrace, one by one", &["capture", "ptrace"], ptrace_one),
    scenario("ptrace, all together", &["capture", "ptrace"], ptrace_all),
    scenario("each in its best way", ALL_WAYS, best_way),
    scenario("one thread, walked by hand", &["capture", "signal"], by_hand),
    scenario("the calling thread", &["itself"], itself),
    scenario("from a signal handler", &["capture", "peek", "signal", "ptrace", "handler"], from_handler),
    scenario("the list of images", &["images"], images),
    scenario("a record", &["record"], record),
    Scenario {
        dies: true,
        ..scenario("a crash", &["capture", "peek", "signal", "ptrace", "images", "record", "crash"], crash)
    },
    Scenario {
        refused: &["process_vm_readv"],
        ..scenario("memory by a pipe", &["capture", "peek", "signal", "ptrace", "pipe"], best_way)
    },
    Scenario { before: open_all_descriptors, ..scenario("no descriptor is left", FULL, best_way) },
    Scenario { before: allow_no_descriptors, ..scenario("no descriptor may be opened", FULL, best_way) },
    Scenario {
        registration: Registration::Take,
        ..scenario("the helper registers", &["capture", "ptrace", "registered"], ptrace_all)
    },
];

fn open_all_descriptors() {
    limit_descriptors(64);
    // SAFETY: no pointers.
    while unsafe { libc::dup(2) } >= 0 {}
}

/// Kept ones are above the limit then, and stay open. Not 0: `poll` would not look at a listener either.
fn allow_no_descriptors() {
    limit_descriptors(1);
}

fn limit_descriptors(most: u64) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: reads the limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
}

/// How often each is repeated.
const ROUNDS: u32 = 20;

/// Captures made, and those among them that were made in the way that the scenario is about.
static CAPTURES: AtomicU32 = AtomicU32::new(0);
static AS_MEANT: AtomicU32 = AtomicU32::new(0);

pub(crate) fn counted() -> (u32, u32) {
    (CAPTURES.load(Ordering::Relaxed), AS_MEANT.load(Ordering::Relaxed))
}

fn count(as_meant: bool) {
    CAPTURES.fetch_add(1, Ordering::Relaxed);
    AS_MEANT.fetch_add(as_meant.into(), Ordering::Relaxed);
}

type Threads = Snapshot<16, 1024, { 256 << 10 }>;

/// What is there before.
pub(crate) struct Stage {
    targets: Targets,
    suspender: Suspender,
    images: Box<ImageTable>,
    snapshot: Box<Threads>,
    file: Option<ReportFile>,
    staging: Vec<u8>,
    stack: Vec<u8>,
    frames: Vec<Frame>,
    context: Box<WalkContext>,
}

impl Stage {
    pub(crate) fn new(targets: Targets, file: &Path, scenario: &Scenario) -> Self {
        // On their way to the heap these need more stack than a thread has.
        let large = std::thread::Builder::new().stack_size(16 << 20);
        let large = large
            .spawn(|| (Box::new(ImageTable::new()), Box::new(Snapshot::new()), Box::new(WalkContext::new())));
        let (mut images, snapshot, context) = large.unwrap().join().unwrap();
        let suspender = init(Config { registration: scenario.registration, ..Config::default() }).unwrap();
        images.refresh().unwrap();
        let size = Size { slots: 4, stride: 256 << 10 };
        let mut report = None;
        if scenario.dies {
            Reporter::to_file(file, size).install().unwrap();
        } else {
            handle_breakpoints();
            let owner = Owner { pid: std::process::id(), start_ticks: 1, boot_id: [0; 16] };
            report = Some(ReportFile::open(file, size, owner).unwrap());
        }
        let staging = vec![1; 256 << 10];
        let (stack, frames) = (vec![1; 64 << 10], vec![Frame::EMPTY; 128]);
        Self { targets, suspender, images, snapshot, file: report, staging, stack, frames, context }
    }

    /// A capture of all threads; whether `thread` was held as `meant`.
    fn capture(&mut self, purpose: Purpose, ways: Ways, thread: ThreadId, meant: fn(Held) -> bool) {
        let patience = Patience { stop_within_ns: 2_000_000_000, ..Patience::DEFAULT };
        let options =
            Options { first: Some(thread), purpose, ways, first_patience: patience, ..Options::default() };
        let captured = self.snapshot.capture(&self.suspender, &self.images, &options);
        let view = self.snapshot.view();
        let first = view.threads.first().filter(|first| first.thread == thread);
        let frames = first.map_or(0, |first| view.frames(first).len());
        count(captured.is_ok() && frames > 0 && first.is_some_and(|first| meant(first.held)));
    }
}

fn peek(stage: &mut Stage) {
    for _ in 0..ROUNDS {
        let waits = stage.targets.waits;
        stage.capture(Purpose::OneThread, Ways::only(Way::Peek), waits, |held| held == Held::Peek);
    }
}

fn signal(stage: &mut Stage) {
    for round in 0..ROUNDS {
        let thread = if round % 2 == 0 { stage.targets.spins } else { stage.targets.waits };
        stage.capture(Purpose::OneThread, Ways::only(Way::Signal), thread, |held| {
            matches!(held, Held::Signal { .. })
        });
    }
}

fn ptrace_one(stage: &mut Stage) {
    for round in 0..ROUNDS {
        let thread = if round % 2 == 0 { stage.targets.is_deaf } else { stage.targets.spins };
        stage.capture(Purpose::OneThread, Ways::only(Way::Ptrace), thread, |held| {
            matches!(held, Held::Ptrace { .. })
        });
    }
}

fn ptrace_all(stage: &mut Stage) {
    for _ in 0..ROUNDS {
        let spins = stage.targets.spins;
        stage.capture(Purpose::AllTogether, Ways::only(Way::Ptrace), spins, |held| {
            matches!(held, Held::Ptrace { .. })
        });
    }
}

fn best_way(stage: &mut Stage) {
    for round in 0..ROUNDS {
        let thread = if round % 2 == 0 { stage.targets.is_deaf } else { stage.targets.spins };
        let purpose = if round % 4 < 2 { Purpose::OneThread } else { Purpose::AllTogether };
        stage.capture(purpose, Ways::ALL, thread, |held| !matches!(held, Held::Not(_)));
    }
}

fn by_hand(stage: &mut Stage) {
    for _ in 0..ROUNDS {
        let Ok(mut session) = stage.suspender.session() else { continue };
        let patience = Patience { stop_within_ns: 2_000_000_000, ..Patience::DEFAULT };
        let Ok(held) = session.suspend(stage.targets.spins, patience) else { continue };
        let registers = *held.registers();
        let mut copy = StackCopy::new(&mut stage.stack);
        copy.fill(&mut ProcessMemory::new(), registers.sp(), u64::MAX);
        held.release();
        let frames =
            walk(&mut stage.frames, &stage.images, &mut stage.context, &registers, &mut copy.window());
        count(frames > 0);
    }
}

/// How many frames a walk by tables finds.
fn walk(
    frames: &mut [Frame],
    images: &ImageTable,
    context: &mut WalkContext,
    registers: &Registers,
    memory: &mut impl freezeframe_unwind::memory::Memory,
) -> usize {
    let bounds = StackBounds::above(registers.sp());
    let mut walker = Walker::new(registers, bounds, pac_mask(), images, ProcessMemory::new(), context);
    Backtrace::new(frames, Depth { innermost: 64, outermost: 32 }).collect(&mut walker, memory).kept
}

fn itself(stage: &mut Stage) {
    for _ in 0..ROUNDS {
        let registers = freezeframe_arch::capture();
        let memory = &mut ProcessMemory::new();
        let by_tables = walk(&mut stage.frames, &stage.images, &mut stage.context, &registers, memory);
        let mut walker = FramePointerWalker::new(&registers, StackBounds::above(registers.sp()), pac_mask());
        let depth = Depth { innermost: 64, outermost: 32 };
        let by_pointers = Backtrace::new(&mut stage.frames, depth).collect(&mut walker, memory).kept;
        count(by_tables > 1 && by_pointers > 1);
    }
}

/// The stage, for a handler.
static INTERRUPTED: AtomicPtr<Stage> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn captures(_signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the thread that has raised the signal waits for the handler; a context has this size.
    let (stage, bytes) = unsafe {
        let bytes = ucontext_bytes(Architecture::NATIVE);
        let bytes = std::slice::from_raw_parts(context.cast::<u8>(), bytes);
        (&mut *INTERRUPTED.load(Ordering::Relaxed), bytes)
    };
    let Ok(registers) = from_ucontext(Architecture::NATIVE, bytes) else { return };
    let Stage { suspender, images, snapshot, .. } = stage;
    snapshot.capture_from_context(suspender, images, &registers, &Options::default());
    let view = snapshot.view();
    count(
        view.threads.first().is_some_and(|first| view.frames(first).len() > 1 && first.held == Held::Itself),
    );
}

/// The handler of a breakpoint, which comes without a system call and goes on behind it.
fn handle_breakpoints() {
    // SAFETY: plain data; a handler that may run where the scenario has a breakpoint.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = captures as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut());
    }
}

fn from_handler(stage: &mut Stage) {
    INTERRUPTED.store(stage, Ordering::Relaxed);
    for _ in 0..ROUNDS {
        // SAFETY: the handler is there; it changes what it reaches through the address stored above.
        unsafe { std::arch::asm!("int3") };
    }
}

fn images(stage: &mut Stage) {
    for round in 0..ROUNDS {
        if round % 2 == 0 {
            // All of them again, from their headers on.
            stage.images.clear();
        }
        let refreshed = stage.images.refresh();
        count(refreshed.is_ok() && stage.images.find(images as *const () as u64).is_some());
    }
}

fn record(stage: &mut Stage) {
    let Some(file) = &stage.file else { return };
    for _ in 0..ROUNDS {
        let encoded = encode(&mut stage.staging, &about(), &stage.snapshot.view(), &stage.images);
        let record = stage.staging.get(..encoded.bytes).unwrap_or(&[]);
        let mut slot = file.ring().write(record);
        if let Ok(slot) = &mut slot {
            file.ring().update(
                slot,
                Live {
                    duration_ns: 1,
                    outcome: Outcome::Recovered,
                    repeats: 1,
                    repeated_ns: 1,
                    repeating_ns: 0,
                },
            );
        }
        count(encoded.bytes > 100 && slot.is_ok_and(|slot| slot.sequence() > 0));
    }
}

fn about() -> About<'static> {
    About {
        uuid: [7; 16],
        kind: Kind::Freeze,
        strategy: Strategy::RunLoop,
        crash: None,
        component: "main",
        activity: 64,
        wall_ns: 1,
        started_ns: 1,
        detected_ns: 2,
        continuous_ns: 2,
        discounted_ns: 0,
        interval_ns: 1,
        misses: 5,
        late_ticks: 0,
        wakeups: 0,
        boot_id: [0; 16],
        process: Process {
            pid: 1,
            parent: 1,
            parent_name: b"parent",
            start_ticks: 1,
            name: b"name",
            path: b"/path",
            app: "app",
            version: "1",
            debugged: false,
            app_state: AppState::Unknown,
            translated: false,
            cpu_ns: 1,
            footprint_bytes: 1,
        },
        system: System {
            os: b"os",
            build: b"",
            kernel: b"kernel",
            model: b"model",
            cores: 1,
            page_bytes: 4096,
            memory_bytes: 1,
        },
        told: Told::default(),
        vitals: None,
    }
}

fn crash(_stage: &mut Stage) {
    // SAFETY: none: that is what it is for.
    unsafe { std::ptr::null_mut::<u8>().wrapping_add(16).write_volatile(1) };
}
