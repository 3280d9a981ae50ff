//! The program that crashes: each test below runs it as a child process, in one of these ways.

use super::tripwire::arm;
use freezeframe_monitor::crash::{InstallError, Reporter, protect_this_thread};
use freezeframe_monitor::{Activity, Monitor};
use freezeframe_report::file::Size;
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::init::{Config, init};
use freezeframe_unwind::snapshot::{Options, Snapshot};
use freezeframe_unwind::suspend::{Patience, Way, Ways};
use freezeframe_unwind::threads::{ThreadId, current};
use std::cell::Cell;
use std::hint::black_box;
use std::mem::zeroed;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

pub(crate) const SIZE: Size = Size { slots: 5, stride: 256 * 1024 };
/// Of threads that overflow.
pub(crate) const SMALL_STACK: usize = 256 << 10;

static COMPANION: AtomicI32 = AtomicI32::new(0);

/// Another thread, whose stack must be in every report.
#[inline(never)]
fn companion_waits(ready: &mpsc::Sender<()>) {
    COMPANION.store(current().0, Ordering::SeqCst);
    ready.send(()).unwrap();
    loop {
        std::thread::sleep(Duration::from_secs(3600));
        black_box(());
    }
}

pub(crate) fn run(way: &str, file: &Path) {
    no_core_dumps();
    let (ready, is_ready) = mpsc::channel();
    std::thread::Builder::new().name("companion".into()).spawn(move || companion_waits(&ready)).unwrap();
    is_ready.recv().unwrap();
    before(way);
    if way != "without a reporter" {
        let reporter = Reporter::to_file(file, SIZE).app("test.crash", "1.2");
        // A loaded machine takes its time to let a thread run its handler.
        reporter.others_within(Duration::from_secs(40)).install().unwrap();
        let second = Reporter::to_file(file, SIZE).install();
        assert!(matches!(second, Err(InstallError::AlreadyInstalled)));
    }
    crash(way, file);
    println!("nothing has happened");
}

fn no_core_dumps() {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads the limit.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
}

/// Whoever handled signals before the reporter.
fn before(way: &str) {
    // SAFETY: handlers of this program's own, or the default.
    unsafe {
        match way {
            // As in a program that is not Rust's.
            "overflow without std's handler" | "overflow of C's thread" => {
                libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            }
            "earlier handler" | "earlier handler of abort" => {
                let mut action: libc::sigaction = zeroed();
                action.sa_sigaction = tells_and_exits as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO;
                libc::sigaction(libc::SIGSEGV, &action, null_mut());
                libc::sigaction(libc::SIGABRT, &action, null_mut());
            }
            _ => {}
        }
    }
}

/// The exit code says whether it was told what the signal said.
extern "C" fn tells_and_exits(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: as the kernel gave it; `_exit` may be called anywhere.
    unsafe {
        let told = match signal {
            libc::SIGSEGV => (*info).si_code > 0 && (*info).si_addr() as usize == FAULT,
            _ => (*info).si_code == libc::SI_TKILL && (*info).si_pid() == libc::getpid(),
        };
        libc::_exit(if told { 42 } else { 43 });
    }
}

/// In the first page.
pub(crate) const FAULT: usize = 16;

fn crash(way: &str, file: &Path) {
    match way {
        "null" | "without a reporter" | "earlier handler" => writes_to_null(),
        "abort" | "earlier handler of abort" => aborts(),
        "overflow without std's handler" => black_box(recurses_endlessly)(0),
        "overflow of std's thread" => in_std_thread(|| black_box(recurses_endlessly)(0)),
        "overflow of C's thread" => in_c_thread(overflows_protected),
        "C's thread" => in_c_thread(crashes_in_c_thread),
        "corrupted heap" => corrupts_the_heap(),
        "allocates" => {
            arm();
            drop(black_box(Box::new(1)));
        }
        "allocator's lock" => aborts_while_another_holds_the_allocators_lock(),
        "corrupted stack" => corrupts_its_own_frame(),
        "corrupted stack pointer" => loses_its_stack(),
        "jump to null" => jumps_to(black_box(0)),
        "jump to data" => jumps_to(black_box(&raw const DATA as usize)),
        "freeze's callback" => crashes_in_a_freezes_callback(file, || {}),
        "no descriptor is left" => crashes_in_a_freezes_callback(file, use_up_descriptors),
        "many run" => {
            (0..MANY)
                .for_each(|_| drop(std::thread::Builder::new().name("runs".into()).spawn(runs).unwrap()));
            while RUNNING.load(Ordering::SeqCst) < MANY {
                std::thread::yield_now();
            }
            println!("crashes");
            writes_to_null();
        }
        "in a capture" => crashes_in_a_capture(&|| writes_to_null(), Duration::from_secs(20)),
        "while captured" => crashes_while_another_captures(Duration::from_millis(300)),
        "while captured for long" => crashes_while_another_captures(Duration::from_secs(3600)),
        "two at once" => two_crash_at_once(),
        "waits for a kill" => waits_to_be_killed(),
        "trap" => traps(),
        "illegal instruction" => executes_no_instruction(),
        "bus" => reads_behind_the_end_of_a_file(file),
        "forbidden call" => makes_a_forbidden_call(),
        "forked child" => crashes_in_a_forked_child(),
        "file cut off" => {
            std::fs::OpenOptions::new().write(true).open(file).unwrap().set_len(9000).unwrap();
            aborts();
        }
        "file too large" => {
            forbid_large_files();
            aborts();
        }
        "writing is a crash" => {
            forbid(libc::SYS_pwrite64);
            aborts();
        }
        other => panic!("no way to crash is called {other}"),
    }
}

#[inline(never)]
fn writes_to_null() {
    arm();
    // SAFETY: none. This ends the process.
    unsafe { *black_box(FAULT as *mut u8) = 1 };
    black_box(());
}

#[inline(never)]
fn aborts() {
    arm();
    // SAFETY: this ends the process.
    unsafe { libc::abort() };
}

#[allow(unconditional_recursion)]
#[inline(never)]
fn recurses_endlessly(depth: u64) {
    let room = black_box([depth; 8]);
    DEPTH.store(depth as usize, Ordering::Relaxed);
    recurses_endlessly(room[0] + 1);
    black_box(room);
}

static DEPTH: AtomicUsize = AtomicUsize::new(0);

fn in_std_thread(body: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name("overflows".into()).stack_size(SMALL_STACK).spawn(body);
    thread.unwrap().join().unwrap();
}

/// A thread that has no alternate stack.
fn in_c_thread(body: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void) {
    // SAFETY: plain data, and a function of the right type.
    unsafe {
        let (mut thread, mut attributes) = (zeroed(), zeroed());
        assert_eq!(libc::pthread_attr_init(&mut attributes), 0);
        assert_eq!(libc::pthread_attr_setstacksize(&mut attributes, SMALL_STACK), 0);
        assert_eq!(libc::pthread_create(&mut thread, &attributes, body, null_mut()), 0);
        libc::pthread_join(thread, null_mut());
    }
}

extern "C" fn crashes_in_c_thread(_: *mut libc::c_void) -> *mut libc::c_void {
    writes_to_null();
    null_mut()
}

extern "C" fn overflows_protected(_: *mut libc::c_void) -> *mut libc::c_void {
    let _protection = protect_this_thread().unwrap();
    black_box(recurses_endlessly)(0);
    null_mut()
}

/// glibc finds out when it takes the next chunk, with its lock held: there is another thread.
#[inline(never)]
fn corrupts_the_heap() {
    // SAFETY: none. This ends the process.
    unsafe {
        const BYTES: usize = 2000;
        let chunks: Vec<*mut u8> = (0..8).map(|_| black_box(libc::malloc(BYTES)).cast()).collect();
        libc::free(chunks[2].cast());
        libc::free(chunks[4].cast());
        // Sizes that no chunk has, in front of what is free and what is not.
        for chunk in &chunks[..7] {
            chunk.add(BYTES).write_bytes(0xff, 64);
        }
        for chunk in &chunks {
            black_box(libc::malloc(BYTES / 2));
            libc::free(chunk.cast());
        }
    }
}

/// `malloc_stats` prints while it holds the lock, here to somebody who does not read.
#[inline(never)]
fn aborts_while_another_holds_the_allocators_lock() {
    #[cfg(target_env = "gnu")]
    {
        static PRINTS: AtomicBool = AtomicBool::new(false);
        extern "C" fn prints(_: *mut libc::c_void) -> *mut libc::c_void {
            unsafe extern "C" {
                fn malloc_stats();
            }
            PRINTS.store(true, Ordering::SeqCst);
            // SAFETY: no arguments.
            unsafe { malloc_stats() };
            null_mut()
        }
        // SAFETY: descriptors of this process, plain data.
        unsafe {
            let mut pipe = [0; 2];
            assert_eq!(libc::pipe2(pipe.as_mut_ptr(), libc::O_NONBLOCK), 0);
            let block = [0u8; 4096];
            while libc::write(pipe[1], block.as_ptr().cast(), block.len()) > 0 {}
            while libc::write(pipe[1], block.as_ptr().cast(), 1) > 0 {}
            libc::fcntl(pipe[1], libc::F_SETFL, 0);
            libc::dup2(pipe[1], 2);
            let mut thread = zeroed();
            assert_eq!(libc::pthread_create(&mut thread, null(), prints, null_mut()), 0);
        }
        while !PRINTS.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    aborts();
}

/// Its caller's frame pointer and its return address are gone when it crashes.
#[inline(never)]
fn corrupts_its_own_frame() {
    let frame: *mut usize;
    // SAFETY: frame pointers are kept: at it lie the caller's and the return address.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("mov {}, rbp", out(reg) frame);
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("mov {}, x29", out(reg) frame);
        frame.write_volatile(GARBAGE);
        frame.add(1).write_volatile(GARBAGE);
    }
    writes_to_null();
    black_box(());
}

#[inline(never)]
fn loses_its_stack() {
    // SAFETY: none. This ends the process.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("mov rsp, {}", "push 0", in(reg) GARBAGE);
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("mov sp, {}", "str xzr, [sp, #-16]!", in(reg) GARBAGE);
    }
    black_box(());
}

pub(crate) const GARBAGE: usize = 0x4141_4141_4140;

static DATA: [u64; 4] = [0; 4];

#[inline(never)]
fn jumps_to(address: usize) {
    // SAFETY: none. This ends the process.
    let call: extern "C" fn() = unsafe { std::mem::transmute(address) };
    call();
    black_box(());
}

/// How many threads fight for the processors.
pub(crate) const MANY: usize = 300;
static RUNNING: AtomicUsize = AtomicUsize::new(0);

#[inline(never)]
fn runs() {
    RUNNING.fetch_add(1, Ordering::SeqCst);
    loop {
        black_box(());
    }
}

/// Opens files until that fails.
fn use_up_descriptors() {
    let limit = libc::rlimit { rlim_cur: 40, rlim_max: 40 };
    // SAFETY: reads the limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    while let Ok(file) = std::fs::File::open("/dev/null") {
        std::mem::forget(file);
    }
}

fn crashes_in_a_freezes_callback(file: &Path, before_the_freeze: fn()) {
    let monitor = Monitor::builder("main")
        .interval(Duration::from_millis(10))
        .report_file(file, SIZE)
        .on_freeze(|_| writes_to_null())
        .watch_run_loop();
    let (_monitor, beacon) = monitor.unwrap();
    before_the_freeze();
    beacon.transition(Activity::Entry);
    beacon.transition(Activity::AfterWaiting);
    freezes();
}

#[inline(never)]
fn freezes() {
    std::thread::sleep(Duration::from_secs(3600));
    black_box(());
}

/// Captures all threads; the companion, which comes first, is held while `still` is asked.
#[inline(never)]
fn crashes_in_a_capture(still: &dyn Fn(), stop_within: Duration) {
    let storage = std::thread::Builder::new()
        .stack_size(16 << 20)
        .spawn(|| (Box::new(ImageTable::new()), Box::new(Snapshot::<16, 512>::new())));
    let (mut images, mut snapshot) = storage.unwrap().join().unwrap();
    let suspender = init(Config::default()).unwrap();
    images.refresh().unwrap();
    let held = Cell::new(false);
    let still = || {
        held.set(true);
        still();
        true
    };
    let first = Some(ThreadId(COMPANION.load(Ordering::SeqCst)));
    let ways = Ways::only(Way::Signal);
    let stop_within_ns = stop_within.as_nanos() as u64;
    let first_patience = Patience { stop_within_ns, ..Patience::DEFAULT };
    let options = Options { first, first_patience, ways, still: &still, ..Options::default() };
    // On a loaded machine the companion may not stop in time; who waits to hear of it would wait for ever.
    while !held.get() {
        snapshot.capture(&suspender, &images, &options).unwrap();
    }
}

/// Another thread holds the companion, and goes on after `time`.
#[inline(never)]
fn crashes_while_another_captures(time: Duration) {
    let (send, captures) = mpsc::channel();
    let capturer = std::thread::Builder::new().name("capturer".into());
    let body = move || {
        let captures = || {
            send.send(()).unwrap();
            std::thread::sleep(time);
        };
        // Soon after that the companion goes on by itself.
        crashes_in_a_capture(&captures, Duration::from_millis(100));
        has_captured();
    };
    let _capturer = capturer.spawn(body).unwrap();
    captures.recv().unwrap();
    writes_to_null();
    black_box(());
}

#[inline(never)]
fn has_captured() {
    std::thread::sleep(Duration::from_secs(3600));
    black_box(());
}

fn two_crash_at_once() {
    static ARRIVED: AtomicUsize = AtomicUsize::new(0);
    /// Spinning, so that nobody has to be woken.
    fn meet() {
        ARRIVED.fetch_add(1, Ordering::SeqCst);
        while ARRIVED.load(Ordering::SeqCst) < 2 {
            std::hint::spin_loop();
        }
    }
    #[inline(never)]
    fn one() {
        meet();
        writes_to_null();
        black_box(());
    }
    #[inline(never)]
    fn other() {
        meet();
        writes_to_null();
        // Unlike the one, or they would become the same function.
        black_box(1);
    }
    let threads = [std::thread::spawn(one), std::thread::spawn(other)];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[inline(never)]
fn waits_to_be_killed() {
    println!("ready");
    std::thread::sleep(Duration::from_secs(3600));
    black_box(());
}

#[inline(never)]
fn traps() {
    // SAFETY: none. This ends the process.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("int3");
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("brk #0");
    }
    black_box(());
}

#[inline(never)]
fn executes_no_instruction() {
    // SAFETY: none. This ends the process.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("ud2");
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("udf #0");
    }
    black_box(());
}

#[inline(never)]
fn reads_behind_the_end_of_a_file(file: &Path) {
    use std::os::fd::AsRawFd;
    std::fs::write(file.with_extension("empty"), "").unwrap();
    let empty = std::fs::File::open(file.with_extension("empty")).unwrap();
    // SAFETY: none. This ends the process.
    unsafe {
        let page = libc::mmap(null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, empty.as_raw_fd(), 0);
        black_box(page.cast::<u8>().read_volatile());
    }
}

#[inline(never)]
fn makes_a_forbidden_call() {
    forbid(libc::SYS_getppid);
    // SAFETY: no pointers.
    black_box(unsafe { libc::getppid() });
}

/// A filter that lets the kernel send a signal for a system call.
fn forbid(call: libc::c_long) {
    let filter = [
        libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
        libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: call as u32 },
        libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x0003_0000 },
        libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 },
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the program outlives the call that copies it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const program), 0);
    }
}

/// The parent ends with the child's signal as its code.
fn crashes_in_a_forked_child() {
    // SAFETY: the child does nothing but crash.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            writes_to_null();
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert!(libc::WIFSIGNALED(status));
        libc::_exit(libc::WTERMSIG(status));
    }
}

/// Writing more than a process may write ends it by SIGXFSZ.
fn forbid_large_files() {
    let none = libc::rlimit { rlim_cur: 4096, rlim_max: 4096 };
    // SAFETY: reads the limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &none) }, 0);
}
