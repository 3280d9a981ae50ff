//! Captures in processes where something is forbidden, exhausted or in the way. Each ends in bounded time, holds what can
//! be had, and says why there is no more. Each in a process of its own, since what is done to it cannot be undone.
#![cfg(any(target_os = "linux", target_os = "android"))]
#![cfg(target_arch = "x86_64")]

mod common;

use common::{Target, is_in, parked, spin_inner, spinning, start};
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::init::{Config, init};
use freezeframe_unwind::snapshot::{Held, Options, Set, Snapshot, ThreadCapture};
use freezeframe_unwind::suspend::{Patience, Purpose, SuspendError, Suspender, Way, Ways};
use freezeframe_unwind::threads::ThreadId;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const CASE: &str = "FREEZEFRAME_CHAOS_CASE";

/// Runs this test again in a process of its own, which calls `body`; `beside` is called meanwhile.
fn alone(test: &str, case: usize, body: impl FnOnce(usize), beside: impl FnOnce(&mut Child)) {
    if let Ok(case) = std::env::var(CASE) {
        return body(case.parse().unwrap());
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CASE, case.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    beside(&mut child);
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(status.success(), "case {case} of {test}: {status}\n{errors}");
}

/// Waits, runs, and runs with every signal blocked: the one only a tracer reaches.
struct Threads {
    waits: Target,
    runs: Target,
    deaf: Target,
}

impl Threads {
    fn start() -> Self {
        let deaf = start("is deaf", |stop: &AtomicBool, turns: &AtomicU64| {
            block_signals();
            spin_inner(stop, turns);
        });
        while deaf.turns.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        Self { waits: parked(), runs: spinning(), deaf }
    }

    /// All of them go on.
    fn assert_go_on(&self) {
        for target in [&self.runs, &self.deaf] {
            let (before, begun) = (target.turns.load(Ordering::SeqCst), Instant::now());
            while target.turns.load(Ordering::SeqCst) == before {
                assert!(begun.elapsed() < Duration::from_secs(20), "a thread was left standing");
                std::thread::yield_now();
            }
        }
    }
}

fn block_signals() {
    // SAFETY: a set of the calling thread's own mask.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
    }
}

/// What a capture held: of each thread also the addresses of its frames.
struct Captured {
    threads: Vec<(ThreadCapture, Vec<u64>)>,
    set: Set,
}

impl Captured {
    fn thread(&self, id: ThreadId) -> ThreadCapture {
        self.threads.iter().find(|(thread, _)| thread.thread == id).expect("the thread is listed").0
    }

    fn is_in(&self, id: ThreadId, function: usize) -> bool {
        let mut threads = self.threads.iter().filter(|(thread, _)| thread.thread == id);
        threads.any(|(_, addresses)| addresses.iter().any(|address| is_in(*address, function)))
    }

    fn held(&self, id: ThreadId) -> Held {
        self.thread(id).held
    }
}

static STORAGE: Mutex<(ImageTable, Snapshot<64, 4096, { 1 << 20 }>)> =
    Mutex::new((ImageTable::new(), Snapshot::new()));

/// Captures, in bounded time.
fn capture(suspender: &Suspender, options: Options<'_>) -> Captured {
    let mut storage = STORAGE.lock().unwrap();
    let (images, snapshot) = &mut *storage;
    // An older table is good enough: nothing is loaded meanwhile.
    let _ = images.refresh();
    let begun = Instant::now();
    snapshot.capture(suspender, images, &options).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let view = snapshot.view();
    let addresses = |thread| view.frames(thread).iter().map(|frame| frame.address.lookup()).collect();
    let threads = view.threads.iter().map(|thread| (*thread, addresses(thread))).collect();
    Captured { threads, set: view.set }
}

fn one_by_one() -> Options<'static> {
    let patience = Patience { stop_within_ns: 1_000_000_000, hold_at_most_ns: 1_000_000_000 };
    let (first_patience, other_patience) = (patience, patience);
    Options { first_patience, other_patience, all_within_ns: 5_000_000_000, ..Options::default() }
}

fn together() -> Options<'static> {
    Options { purpose: Purpose::AllTogether, ..one_by_one() }
}

fn ready() -> Suspender {
    init(Config::default()).unwrap()
}

/// Gives up root's rights, which would open what is to be closed here.
fn become_nobody() {
    // SAFETY: plain calls.
    unsafe {
        if libc::getuid() == 0 {
            assert_eq!((libc::setgid(65534), libc::setuid(65534)), (0, 0));
        }
        // A change of user has taken this away.
        assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1), 0);
    }
}

#[test]
fn where_nothing_is_in_the_way_all_are_read_and_held_together() {
    let body = |_| {
        let (suspender, threads) = (ready(), Threads::start());
        let captured = capture(&suspender, one_by_one());
        assert_eq!((captured.thread(threads.waits.id).held, captured.set), (Held::Peek, Set::OneByOne));
        assert!(matches!(captured.thread(threads.runs.id).held, Held::Signal { .. }));
        let deaf = captured.thread(threads.deaf.id);
        assert!(matches!(deaf.held, Held::Ptrace { .. }), "{deaf:?}");
        assert_eq!(deaf.not_better, Some(SuspendError::SignalBlocked));
        assert!(captured.is_in(threads.deaf.id, spin_inner as *const () as usize));
        // On a machine so loaded that one does not stop for long, the others are not kept waiting for it: it is held by itself
        // then, and that is said.
        let ids = [threads.waits.id, threads.runs.id, threads.deaf.id];
        let at_once = |captured: &Captured, id: ThreadId| {
            matches!(captured.held(id), Held::Ptrace { .. }) && captured.thread(id).not_better.is_none()
        };
        let all = (0..50)
            .map(|_| capture(&suspender, together()))
            .find(|captured| ids.iter().all(|id| at_once(captured, *id)));
        let captured = all.expect("all are held together");
        assert!(matches!(captured.set, Set::Together { held_ns: 1.. }));
        threads.assert_go_on();
    };
    alone("where_nothing_is_in_the_way_all_are_read_and_held_together", 0, body, |_| {});
}

#[test]
fn where_the_handler_was_replaced_the_helper_takes_over() {
    let body = |_| {
        let (suspender, threads) = (ready(), Threads::start());
        // SAFETY: ignoring a signal runs no code.
        unsafe { libc::signal(libc::SIGURG, libc::SIG_IGN) };
        let captured = capture(&suspender, one_by_one());
        let runs = captured.thread(threads.runs.id);
        assert!(matches!(runs.held, Held::Ptrace { .. }), "{runs:?}");
        assert_eq!(runs.not_better, Some(SuspendError::HandlerReplaced));
        assert!(captured.is_in(threads.runs.id, spin_inner as *const () as usize));
        assert_eq!(captured.thread(threads.waits.id).held, Held::Peek);
        let only = Options { ways: Ways::only(Way::Signal), ..one_by_one() };
        let held = capture(&suspender, only).thread(threads.runs.id).held;
        assert_eq!(held, Held::Not(SuspendError::HandlerReplaced));
        threads.assert_go_on();
    };
    alone("where_the_handler_was_replaced_the_helper_takes_over", 0, body, |_| {});
}

#[test]
fn where_no_signal_can_be_queued_the_helper_takes_over() {
    let body = |_| {
        let signal = libc::SIGRTMIN() + 3;
        let suspender = init(Config { signal, ..Config::default() }).unwrap();
        let threads = Threads::start();
        let held = |captured: &Captured| captured.held(threads.runs.id);
        assert!(
            matches!(held(&capture(&suspender, one_by_one())), Held::Signal { .. }),
            "any signal will do"
        );
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a valid limit.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_SIGPENDING, &none) }, 0);
        let captured = capture(&suspender, one_by_one());
        assert!(matches!(held(&captured), Held::Ptrace { .. }), "{:?}", held(&captured));
        assert_eq!(captured.thread(threads.runs.id).not_better, Some(SuspendError::NotSent));
        threads.assert_go_on();
    };
    alone("where_no_signal_can_be_queued_the_helper_takes_over", 0, body, |_| {});
}

#[test]
fn where_no_process_can_be_made_threads_are_read_one_by_one() {
    let body = |_| {
        become_nobody();
        let (suspender, threads) = (ready(), Threads::start());
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a valid limit.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &none) }, 0);
        let captured = capture(&suspender, together());
        assert_eq!(captured.set, Set::NotTogether(SuspendError::NoHelper));
        assert_eq!(captured.thread(threads.waits.id).held, Held::Peek);
        assert!(matches!(captured.thread(threads.runs.id).held, Held::Signal { .. }));
        assert_eq!(captured.thread(threads.deaf.id).held, Held::Not(SuspendError::NoHelper));
        threads.assert_go_on();
    };
    alone("where_no_process_can_be_made_threads_are_read_one_by_one", 0, body, |_| {});
}

#[test]
fn where_the_process_may_not_be_looked_into_signals_are_left() {
    let body = |_| {
        become_nobody();
        let (suspender, threads) = (ready(), Threads::start());
        // SAFETY: a number.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) }, 0);
        let captured = capture(&suspender, together());
        assert_eq!(captured.set, Set::NotTogether(SuspendError::NotDumpable));
        let waits = captured.thread(threads.waits.id);
        assert!(matches!(waits.held, Held::Signal { .. }), "{waits:?}");
        assert_eq!(waits.not_better, Some(SuspendError::Untold));
        assert!(captured.is_in(threads.runs.id, spin_inner as *const () as usize));
        assert_eq!(captured.held(threads.deaf.id), Held::Not(SuspendError::NotDumpable));
        assert_eq!(
            capture(&suspender, one_by_one()).held(threads.deaf.id),
            Held::Not(SuspendError::SignalBlocked)
        );
        threads.assert_go_on();
    };
    alone("where_the_process_may_not_be_looked_into_signals_are_left", 0, body, |_| {});
}

/// Traces all threads of a process as a debugger does: signals pass.
fn debug(child: &mut Child) {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.find(|line| line.as_ref().is_ok_and(|line| line.ends_with("ready"))).unwrap().unwrap();
    let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let tids: Vec<i32> =
        tasks.map(|task| task.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
    // On a thread of its own: when that ends, the kernel lets go of whom it traces. A stop that nobody has waited for would
    // be taken for the end of the process.
    std::thread::scope(|scope| {
        let tracer = scope.spawn(|| {
            // SAFETY: requests about threads of our child, without pointers.
            unsafe {
                for tid in &tids {
                    assert_eq!(libc::ptrace(libc::PTRACE_SEIZE, *tid, 0, 0), 0);
                }
                child.stdin.take().unwrap().write_all(b"go\n").unwrap();
                let begun = Instant::now();
                let mut alive = tids.len();
                while alive > 0 && begun.elapsed() < Duration::from_secs(30) {
                    alive = 0;
                    for tid in &tids {
                        let mut status = 0;
                        // The status of the process itself is for who waits for it.
                        let leader = *tid == child.id() as i32;
                        match libc::waitpid(*tid, &mut status, libc::__WALL | libc::WNOHANG) {
                            0 => alive += usize::from(!leader),
                            got if got == *tid && libc::WIFSTOPPED(status) => {
                                let signal = if status >> 16 == 0 { libc::WSTOPSIG(status) } else { 0 };
                                libc::ptrace(libc::PTRACE_CONT, *tid, 0, signal);
                                alive += 1;
                            }
                            _ => {}
                        }
                    }
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        });
        tracer.join().unwrap();
    });
}

#[test]
fn where_a_debugger_is_attached_threads_are_read_one_by_one() {
    let body = |_| {
        let (suspender, threads) = (ready(), Threads::start());
        println!("\nready");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        let captured = capture(&suspender, together());
        assert_eq!(captured.set, Set::NotTogether(SuspendError::Traced));
        assert_eq!(captured.held(threads.waits.id), Held::Peek);
        let runs = captured.thread(threads.runs.id);
        assert!(matches!(runs.held, Held::Signal { .. }), "{runs:?}");
        assert!(captured.is_in(threads.runs.id, spin_inner as *const () as usize));
        assert_eq!(captured.held(threads.deaf.id), Held::Not(SuspendError::Traced));
        threads.assert_go_on();
    };
    alone("where_a_debugger_is_attached_threads_are_read_one_by_one", 0, body, debug);
}

/// Makes these system calls fail with that error, in every thread.
fn forbid(calls: &[libc::c_long], error: i32) {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let (load, equal, give) = (libc::BPF_LD | libc::BPF_W, libc::BPF_JMP | libc::BPF_JEQ, libc::BPF_RET);
    let mut program = vec![step(load | libc::BPF_ABS, 0, 0, 0)];
    for call in calls {
        program.push(step(equal | libc::BPF_K, 0, 1, *call as u32));
        program.push(step(give | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32));
    }
    program.push(step(give | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: a program of the length that is said.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
        assert_eq!(libc::syscall(libc::SYS_seccomp, mode, flags, &raw const filter), 0);
    }
}

#[test]
fn where_a_filter_forbids_tracing_or_reading_memory_the_other_is_done() {
    const PTRACE: i64 = libc::SYS_ptrace;
    const READV: i64 = libc::SYS_process_vm_readv;
    const CASES: [(&[libc::c_long], i32); 6] = [
        (&[PTRACE], libc::EPERM),
        (&[PTRACE], libc::ENOSYS),
        (&[READV], libc::EPERM),
        (&[READV], libc::ENOSYS),
        (&[PTRACE, READV], libc::EPERM),
        (&[PTRACE, READV], libc::ENOSYS),
    ];
    let body = |case: usize| {
        let (suspender, threads) = (ready(), Threads::start());
        let (calls, error) = CASES[case];
        forbid(calls, error);
        let may_trace = !calls.contains(&PTRACE);
        for _ in 0..2 {
            let captured = capture(&suspender, together());
            if may_trace {
                assert!(matches!(captured.set, Set::Together { .. }), "{:?}", captured.set);
                let deaf = captured.held(threads.deaf.id);
                assert!(matches!(deaf, Held::Ptrace { .. }), "{deaf:?}");
            } else {
                assert_eq!(captured.set, Set::NotTogether(SuspendError::Forbidden));
                assert_eq!(captured.held(threads.waits.id), Held::Peek);
                assert!(matches!(captured.held(threads.runs.id), Held::Signal { .. }));
                assert_eq!(captured.held(threads.deaf.id), Held::Not(SuspendError::Forbidden));
            }
            assert!(captured.is_in(threads.runs.id, spin_inner as *const () as usize));
            assert!(captured.thread(threads.waits.id).summary.kept > 3);
        }
        threads.assert_go_on();
    };
    for case in 0..CASES.len() {
        let name = "where_a_filter_forbids_tracing_or_reading_memory_the_other_is_done";
        alone(name, case, body, |_| {});
        if std::env::var(CASE).is_ok() {
            return;
        }
    }
}

#[test]
fn a_capturer_that_is_late_finds_the_stack_torn_and_nobody_waits_for_it() {
    let body = |_| {
        let (suspender, threads) = (ready(), Threads::start());
        let short = Patience { stop_within_ns: 1_000_000_000, hold_at_most_ns: 0 };
        let late = || {
            std::thread::sleep(Duration::from_millis(1500));
            true
        };
        let options = Options { first_patience: short, still: &late, ..one_by_one() };
        let runs = Options { first: Some(threads.runs.id), ways: Ways::only(Way::Signal), ..options };
        assert_eq!(capture(&suspender, runs).held(threads.runs.id), Held::Torn);
        threads.assert_go_on();
        let waits = Options { first: Some(threads.waits.id), ..options };
        assert_eq!(capture(&suspender, waits).held(threads.waits.id), Held::Peek, "it has no deadline");
        let all = Options { first: Some(threads.runs.id), purpose: Purpose::AllTogether, ..options };
        let held = capture(&suspender, all).held(threads.runs.id);
        // It was let go long before the capturer was asked; unless it did not stop for long, and had a signal.
        assert!(matches!(held, Held::Ptrace { held_ns: 1..1_000_000_000 } | Held::Torn), "{held:?}");
        threads.assert_go_on();
    };
    alone("a_capturer_that_is_late_finds_the_stack_torn_and_nobody_waits_for_it", 0, body, |_| {});
}

/// Goes down its stack until little of it is left, and waits there for a signal that does not come.
extern "C" fn end_of_stack(id: *mut libc::c_void) -> *mut libc::c_void {
    let (mut start, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the calling thread's own attributes.
    unsafe {
        let mut attributes = std::mem::zeroed();
        assert_eq!(libc::pthread_getattr_np(libc::pthread_self(), &mut attributes), 0);
        assert_eq!(libc::pthread_attr_getstack(&attributes, &mut start, &mut size), 0);
        libc::pthread_attr_destroy(&mut attributes);
    }
    descend(start as usize, id.cast());
    std::ptr::null_mut()
}

#[inline(never)]
fn descend(low: usize, id: *mut i32) -> u64 {
    let room = std::hint::black_box([low as u64; 16]);
    if &raw const room as usize - low > 3500 {
        return descend(low, id) + room[1];
    }
    // SAFETY: the id's place lives; waiting takes hardly any stack.
    unsafe {
        id.write_volatile(libc::syscall(libc::SYS_gettid) as i32);
        libc::syscall(libc::SYS_pause);
    }
    room[2]
}

#[test]
fn a_thread_with_little_stack_left_gets_no_signal() {
    let body = |_| {
        let suspender = ready();
        static mut ID: i32 = 0;
        let place = &raw mut ID;
        // SAFETY: a thread without an alternate stack, which goes on as long as the process.
        let id = unsafe {
            let (mut thread, mut attributes) = (0, std::mem::zeroed());
            libc::pthread_attr_init(&mut attributes);
            libc::pthread_attr_setstacksize(&mut attributes, 64 << 10);
            assert_eq!(libc::pthread_create(&mut thread, &attributes, end_of_stack, place.cast()), 0);
            while place.read_volatile() == 0 {
                std::thread::yield_now();
            }
            ThreadId(place.read_volatile())
        };
        common::asleep(id);
        assert_eq!(capture(&suspender, one_by_one()).held(id), Held::Peek);
        let signal = Options { ways: Ways::only(Way::Signal), ..one_by_one() };
        assert_eq!(capture(&suspender, signal).held(id), Held::Not(SuspendError::LittleStack));
        let no_peek = Options { ways: Ways::ALL.without(Way::Peek), ..one_by_one() };
        let thread = capture(&suspender, no_peek).thread(id);
        assert!(matches!(thread.held, Held::Ptrace { .. }), "{thread:?}");
        assert_eq!(thread.not_better, Some(SuspendError::LittleStack));
    };
    alone("a_thread_with_little_stack_left_gets_no_signal", 0, body, |_| {});
}

#[test]
fn where_the_main_thread_has_ended_the_others_are_walked_to_their_ends() {
    let body = |_| {
        let (suspender, threads) = (ready(), Threads::start());
        let main = std::process::id() as i32;
        // SAFETY: the main thread waits for this one, and never runs again.
        unsafe {
            extern "C" fn end_this_thread(_: i32) {
                // SAFETY: ends the calling thread, which holds nothing that is needed here.
                unsafe { libc::syscall(libc::SYS_exit, 0) };
            }
            libc::signal(libc::SIGUSR2, end_this_thread as *const () as usize);
            libc::syscall(libc::SYS_tgkill, main, main, libc::SIGUSR2);
        }
        let dead =
            || std::fs::read_to_string(format!("/proc/self/task/{main}/stat")).unwrap().contains(") Z ");
        while !dead() {
            std::thread::yield_now();
        }
        let captured = capture(&suspender, one_by_one());
        assert_eq!(captured.held(threads.waits.id), Held::Peek);
        assert!(captured.thread(threads.waits.id).summary.kept > 3);
        assert!(captured.is_in(threads.runs.id, spin_inner as *const () as usize));
        assert!(captured.thread(threads.runs.id).summary.kept > 3);
        assert!(matches!(captured.held(ThreadId(main)), Held::Not(_)));
        threads.assert_go_on();
        std::process::exit(0);
    };
    alone("where_the_main_thread_has_ended_the_others_are_walked_to_their_ends", 0, body, |_| {});
}

#[test]
fn where_no_descriptor_is_left_the_thread_that_matters_is_read_and_the_others_are_said_to_be_missing() {
    let body = |_| {
        let (suspender, threads) = (ready(), Threads::start());
        STORAGE.lock().unwrap().0.refresh().unwrap();
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: reads one structure.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &none) }, 0);
        let captured = capture(&suspender, Options { first: Some(threads.runs.id), ..one_by_one() });
        assert_eq!(captured.set, Set::NotTogether(SuspendError::Unlisted));
        assert!(matches!(captured.thread(threads.runs.id).held, Held::Signal { .. }));
        assert!(captured.is_in(threads.runs.id, spin_inner as *const () as usize));
        threads.assert_go_on();
    };
    alone(
        "where_no_descriptor_is_left_the_thread_that_matters_is_read_and_the_others_are_said_to_be_missing",
        0,
        body,
        |_| {},
    );
}
