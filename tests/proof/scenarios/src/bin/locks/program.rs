//! The child: a thread parks with a lock, and everything else captures it. From then on nothing here allocates or prints.

use super::heap::{self, Taken};
use super::parks::{self, COMPANION, PARKED, RUNS};
use freezeframe_arch::{Architecture, linux};
use freezeframe_monitor::crash::Reporter;
use freezeframe_monitor::{Activity, Monitor, Phase};
use freezeframe_report::encode::encode;
use freezeframe_report::file::{ReportFile, Size};
use freezeframe_report::layout::FIRST_SLOT;
use freezeframe_report::ring::{Behind, Ring};
use freezeframe_scenarios::about;
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::init::{Config, init};
use freezeframe_unwind::snapshot::{Held, Options, Snapshot, View};
use freezeframe_unwind::suspend::{Purpose, SuspendError, Suspender, Way, Ways};
use freezeframe_unwind::threads::{ThreadId, current};
use std::cell::UnsafeCell;
use std::hint::black_box;
use std::mem::zeroed;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::thread::Builder;

pub(crate) const SIZE: Size = Size { slots: 12, stride: 256 * 1024 };
/// How this program ends if it is not by its crash.
pub(crate) const NOT_HELD: i32 = 90;
pub(crate) const NO_MONITOR: i32 = 91;
pub(crate) const NO_USERFAULTFD: i32 = 92;
pub(crate) const FORK_HANGS: i32 = 93;
pub(crate) const HANDLER_HANGS: i32 = 94;

struct Storage {
    images: ImageTable,
    snapshot: Snapshot<48, 4096, { 128 * 1024 }>,
    staging: [u8; 240_000],
}

/// For one capture at a time.
struct Shared(UnsafeCell<Storage>);
// SAFETY: captures follow each other.
unsafe impl Sync for Shared {}
static STORAGE: Shared = Shared(UnsafeCell::new(Storage {
    images: ImageTable::new(),
    snapshot: Snapshot::new(),
    staging: [0; 240_000],
}));

static TARGET: AtomicI32 = AtomicI32::new(0);
static HANDLER: AtomicI32 = AtomicI32::new(0);
static READY: AtomicU32 = AtomicU32::new(0);
static GO: AtomicBool = AtomicBool::new(false);
static FROZEN: AtomicU32 = AtomicU32::new(0);
static SESSION_IS_HELD: AtomicBool = AtomicBool::new(false);
/// Freezes that are no longer watched.
static LOST: AtomicU32 = AtomicU32::new(0);
/// Who watches the parked thread's loop, and another one.
static MONITORS: [OnceLock<Monitor>; 2] = [const { OnceLock::new() }; 2];
/// What the witness is to try, and whether that came back.
static TRY: AtomicUsize = AtomicUsize::new(0);
static CAME_BACK: AtomicBool = AtomicBool::new(false);
/// What a handler needs.
static TOOLS: OnceLock<Tools> = OnceLock::new();

struct Tools {
    suspender: Suspender,
    captures: Ring,
    forked: Ring,
}

pub(crate) fn run(place: &str, runs: bool, folder: &Path) {
    RUNS.store(runs, SeqCst);
    SESSION_IS_HELD.store(matches!(place, "a session" | "a held thread"), SeqCst);
    if place == "dlopen" {
        let stay = format!("{:x}", parks::stay as *const () as usize);
        // SAFETY: there is one thread.
        unsafe { std::env::set_var("FREEZEFRAME_STAY", stay) };
    }
    no_core_dumps();
    let suspender = init(Config::default()).expect("threads can be stopped");
    let (captures, forked) = (ring(&folder.join("captures.ffr")), ring(&folder.join("forked.ffr")));
    let tools = TOOLS.get_or_init(|| Tools { suspender, captures, forked });
    let report = folder.join("monitor.ffr");
    Reporter::to_file(&report, SIZE).install().expect("crashes can be reported");
    install_handler();
    let start = |name: &str, body: Box<dyn FnOnce() + Send>| {
        Builder::new().name(name.into()).spawn(body).expect("a thread");
    };
    start("companion", Box::new(|| waits(&COMPANION)));
    start("handler", Box::new(|| waits(&HANDLER)));
    start("witness", Box::new(witness));
    let file = report.clone();
    start("second", Box::new(move || watched("second", file, || ())));
    let (parked_place, parked_folder) = (place.to_owned(), folder.to_owned());
    start(
        "parked",
        Box::new(move || {
            TARGET.store(current().0, SeqCst);
            watched("monitor", report, || parks::park(&parked_place, &parked_folder, &tools.captures));
        }),
    );
    until(|| READY.load(SeqCst) == 5);

    let taken = if place.starts_with("malloc") {
        heap::prepare(place.ends_with("userfaultfd"))
    } else {
        Some(Taken::BySignal)
    };
    let Some(taken) = taken else { exit(NO_USERFAULTFD) };
    GO.store(true, SeqCst);
    match taken {
        Taken::ByUserfaultfd(descriptor) => heap::wait_for_a_fault(descriptor),
        Taken::BySignal => until(|| PARKED.load(SeqCst)),
    }
    if !parks::is_held(place, &comes_back, &tools.suspender) {
        exit(NOT_HELD);
    }
    if !within(20_000, || FROZEN.load(SeqCst) == 2) {
        exit(NO_MONITOR);
    }
    // While a freeze goes on its thread is sampled: the other captures would now and then be told that one goes on.
    std::mem::forget(MONITORS.each_ref().map(|monitor| monitor.get().map(Monitor::pause)));
    if !within(20_000, || LOST.load(SeqCst) == 2) {
        exit(NO_MONITOR);
    }
    let only = |way| Options { ways: Ways::only(way), ..Options::default() };
    capture("peek", &only(Way::Peek));
    capture("signal", &only(Way::Signal));
    capture("ptrace", &only(Way::Ptrace));
    capture("together", &Options { purpose: Purpose::AllTogether, ..Options::default() });
    capture("best", &Options::default());
    capture_in_a_handler();
    capture_in_a_forked_child();
    // SAFETY: none. This ends the process, with a report.
    unsafe { *black_box(16 as *mut u8) = 1 };
}

fn no_core_dumps() {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads the limit.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
}

/// A file of its own, whose writes go by way of who may park in one.
fn ring(path: &Path) -> Ring {
    drop(ReportFile::open(path, SIZE, parks::owner()).expect("a new file"));
    let file = std::fs::File::options().write(true).open(path).expect("it is there");
    let bytes = FIRST_SLOT + SIZE.slots as usize * SIZE.stride as usize;
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, as large as the file, that stays.
    let memory = unsafe { libc::mmap(null_mut(), bytes, protection, flags, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    let behind = Behind { descriptor: file.as_raw_fd(), write: parks::write_or_stay };
    std::mem::forget(file);
    let base = NonNull::new(memory.cast()).expect("a mapping");
    // SAFETY: as above; zeros are what an empty file holds.
    unsafe { Ring::new(base, SIZE.slots as usize, SIZE.stride as usize, parks::owner()) }.in_file(behind)
}

fn waits(id: &AtomicI32) {
    id.store(current().0, SeqCst);
    READY.fetch_add(1, SeqCst);
    parks_quietly();
}

fn parks_quietly() {
    loop {
        // SAFETY: waits for a signal.
        unsafe { libc::pause() };
    }
}

/// A thread whose loop is watched, and freezes.
fn watched(component: &str, file: PathBuf, freezes: impl FnOnce()) {
    let monitor = Monitor::builder(component).report_file(file, SIZE).on_freeze(|freeze| {
        match freeze.phase {
            Phase::Detected if matches!(freeze.record, Ok(Some(_))) => FROZEN.fetch_add(1, SeqCst),
            Phase::Lost => LOST.fetch_add(1, SeqCst),
            _ => 0,
        };
    });
    let (monitor, beacon) = monitor.watch_run_loop().expect("the loop can be watched");
    let [first, second] = &MONITORS;
    first.set(monitor).or_else(|monitor| second.set(monitor)).expect("two loops are watched");
    beacon.transition(Activity::BeforeWaiting);
    READY.fetch_add(1, SeqCst);
    until(|| GO.load(SeqCst));
    beacon.transition(Activity::AfterWaiting);
    freezes();
    parks_quietly();
}

/// Tries what it is told, once.
fn witness() {
    READY.fetch_add(1, SeqCst);
    until(|| TRY.load(SeqCst) != 0);
    // SAFETY: stored below, from such a function.
    let function: extern "C" fn() = unsafe { std::mem::transmute(TRY.load(SeqCst)) };
    function();
    CAME_BACK.store(true, SeqCst);
    parks_quietly();
}

fn comes_back(function: extern "C" fn()) -> bool {
    TRY.store(function as usize, SeqCst);
    within(100, || CAME_BACK.load(SeqCst))
}

/// Whether the parked thread takes signals. In our handler, from which it was just let go, it does not; there it is on another
/// stack, and who traces reads one piece of one stack.
fn takes_signals() -> bool {
    const BLOCKED: &[u8] = b"SigBlk:\t";
    let mut path = [0u8; 64];
    let mut text = [0u8; 4096];
    // SAFETY: a path that fits with its zero; a buffer of that size.
    let read = unsafe {
        let format = c"/proc/self/task/%d/status".as_ptr();
        libc::snprintf(path.as_mut_ptr().cast(), path.len(), format, TARGET.load(SeqCst));
        let file = libc::open(path.as_ptr().cast(), libc::O_RDONLY);
        let read = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        read
    };
    let text = text.get(..read.max(0) as usize).unwrap_or(&[]);
    let at = text.windows(BLOCKED.len()).position(|window| window == BLOCKED);
    let mask = at.and_then(|at| text.get(at + BLOCKED.len()..)?.get(..16));
    let mask = mask.and_then(|mask| u64::from_str_radix(std::str::from_utf8(mask).ok()?, 16).ok());
    mask.is_none_or(|mask| mask & 1 << (libc::SIGURG - 1) == 0)
}

/// Captures all threads, the parked one first, and writes a record.
fn capture(component: &str, options: &Options<'_>) {
    within(5_000, takes_signals);
    let tools = TOOLS.get().expect("set in the beginning");
    // SAFETY: captures follow each other.
    let Storage { images, snapshot, staging } = unsafe { &mut *STORAGE.0.get() };
    let options = Options { first: Some(ThreadId(TARGET.load(SeqCst))), ..*options };
    let mut captured = false;
    unless_a_monitor_looks(|| {
        let _ = images.refresh();
        captured = snapshot.capture(&tools.suspender, images, &options).is_ok();
        !is_told_busy(&snapshot.view())
    });
    if captured {
        let encoded = encode(staging, &about(component), &snapshot.view(), images);
        let _ = tools.captures.write(&staging[..encoded.bytes]);
    }
}

/// Tries again while a monitor looks at its frozen loop once more, which it does now and then; not where the session is what
/// the parked thread holds.
fn unless_a_monitor_looks(mut capture: impl FnMut() -> bool) {
    if SESSION_IS_HELD.load(SeqCst) {
        capture();
    } else {
        within(2_000, capture);
    }
}

fn is_told_busy(view: &View<'_>) -> bool {
    let parked = view.threads.iter().find(|thread| thread.thread.0 == TARGET.load(SeqCst));
    parked.is_some_and(|thread| thread.held == Held::Not(SuspendError::Busy))
}

fn install_handler() {
    // SAFETY: a handler of this program's own.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = captures_in_a_handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, null_mut()), 0);
    }
}

static HANDLED: AtomicBool = AtomicBool::new(false);

fn capture_in_a_handler() {
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), HANDLER.load(SeqCst), libc::SIGUSR1) };
    if !within(20_000, || HANDLED.load(SeqCst)) {
        exit(HANDLER_HANGS);
    }
}

extern "C" fn captures_in_a_handler(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let tools = TOOLS.get().expect("set in the beginning");
    // SAFETY: captures follow each other; the third argument of such a handler is a ucontext of at least this size.
    let (storage, bytes) = unsafe {
        let bytes = linux::ucontext_bytes(Architecture::NATIVE);
        (&mut *STORAGE.0.get(), std::slice::from_raw_parts(context.cast::<u8>(), bytes))
    };
    if let Ok(registers) = linux::from_ucontext(Architecture::NATIVE, bytes) {
        let Storage { images, snapshot, staging } = storage;
        unless_a_monitor_looks(|| {
            let _ = images.refresh();
            snapshot.capture_from_context(&tools.suspender, images, &registers, &Options::default());
            !is_told_busy(&snapshot.view())
        });
        let encoded = encode(staging, &about("handler"), &snapshot.view(), images);
        let _ = tools.captures.write(&staging[..encoded.bytes]);
    }
    HANDLED.store(true, SeqCst);
}

/// Between fork and exec: a copy of this process in which the lock is held, and nobody is there who holds it.
#[inline(never)]
fn capture_in_a_forked_child() {
    // SAFETY: not by way of the C library, which would make its own locks free again in the child.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } as i32;
    if child == 0 {
        captures_in_a_forked_child();
        exit(0);
    }
    let mut status = 0;
    // SAFETY: the child made above.
    if !within(20_000, || unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child) || status != 0
    {
        exit(FORK_HANGS);
    }
}

#[inline(never)]
fn captures_in_a_forked_child() {
    let tools = TOOLS.get().expect("set in the beginning");
    // SAFETY: the child's only thread.
    let Storage { images, snapshot, staging } = unsafe { &mut *STORAGE.0.get() };
    let _ = images.refresh();
    let options = Options { first: Some(current()), ..Options::default() };
    if snapshot.capture(&tools.suspender, images, &options).is_ok() {
        let encoded = encode(staging, &about("forked"), &snapshot.view(), images);
        let _ = tools.forked.write(&staging[..encoded.bytes]);
    }
    black_box(());
}

fn until(condition: impl FnMut() -> bool) {
    within(30_000, condition);
}

fn within(milliseconds: u32, mut condition: impl FnMut() -> bool) -> bool {
    for _ in 0..milliseconds {
        if condition() {
            return true;
        }
        let pause = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        // SAFETY: reads the time.
        unsafe { libc::nanosleep(&pause, null_mut()) };
    }
    condition()
}

fn exit(code: i32) -> ! {
    // SAFETY: nothing is to be written out.
    unsafe { libc::_exit(code) }
}
