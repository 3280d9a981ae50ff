//! Many threads in every state that a thread can be in: all are captured, each with its own function on its stack.
#![cfg(any(target_os = "linux", target_os = "android"))]

mod common;

use common::{deaf, is_in, turn};
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::snapshot::{Held, Options, Set, Snapshot};
use freezeframe_unwind::suspend::{Patience, Purpose, Suspender};
use freezeframe_unwind::threads::{RunState, ThreadId, current, facts};
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Ends all waits: a futex, and the write end of a pipe whose end is read, polled and waited for.
struct End {
    go: AtomicU32,
    flag: AtomicU32,
    pipe: [i32; 2],
    epoll: i32,
    socket: i32,
}

/// A way of being, and the function in which a thread is so.
#[derive(Clone, Copy)]
struct State {
    name: &'static str,
    be: fn(&End),
    /// It needs a processor to be stopped.
    runs: bool,
}

const STATES: [State; 10] = [
    State { name: "futex", be: in_futex, runs: false },
    State { name: "nanosleep", be: in_nanosleep, runs: false },
    State { name: "poll", be: in_poll, runs: false },
    State { name: "epoll", be: in_epoll, runs: false },
    State { name: "read", be: in_read, runs: false },
    State { name: "accept", be: in_accept, runs: false },
    State { name: "vfork's wait", be: in_vfork, runs: false },
    State { name: "deaf to signals", be: deaf_to_signals, runs: false },
    State { name: "spinning", be: spinning, runs: true },
    State { name: "allocating", be: allocating, runs: true },
];

impl End {
    fn new() -> Self {
        let mut pipe = [0; 2];
        // SAFETY: plain calls with valid pointers; the descriptors live as long as the process.
        unsafe {
            assert_eq!(libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC), 0);
            let epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
            assert_eq!(libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, pipe[0], &mut event), 0);
            let socket = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
            let mut address: libc::sockaddr_un = std::mem::zeroed();
            address.sun_family = libc::AF_UNIX as u16;
            // An address of the kernel's choice.
            assert_eq!(libc::bind(socket, (&raw const address).cast(), 2), 0);
            assert_eq!(libc::listen(socket, 1), 0);
            Self { go: AtomicU32::new(0), flag: AtomicU32::new(0), pipe, epoll, socket }
        }
    }

    fn is_over(&self) -> bool {
        self.flag.load(Ordering::Relaxed) != 0
    }

    fn wait_for(&self, word: &AtomicU32) {
        while word.load(Ordering::SeqCst) == 0 {
            // SAFETY: the word lives.
            unsafe {
                let none = std::ptr::null::<libc::timespec>();
                libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, 0, none);
            }
        }
    }

    fn wake(&self, word: &AtomicU32) {
        // SAFETY: nothing but the address is used.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }

    fn end(&self) {
        self.flag.store(1, Ordering::SeqCst);
        self.wake(&self.flag);
        // SAFETY: the descriptors are this value's.
        unsafe {
            libc::close(self.pipe[1]);
            libc::shutdown(self.socket, libc::SHUT_RDWR);
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // SAFETY: nobody uses them any more.
        unsafe {
            libc::close(self.pipe[0]);
            libc::close(self.epoll);
            libc::close(self.socket);
        }
    }
}

#[inline(never)]
fn in_futex(end: &End) {
    end.wait_for(&end.flag);
    black_box(());
}

#[inline(never)]
fn in_nanosleep(end: &End) {
    while !end.is_over() {
        let time = libc::timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        // SAFETY: a valid time.
        unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
    }
    black_box(());
}

#[inline(never)]
fn in_poll(end: &End) {
    while !end.is_over() {
        let mut polled = libc::pollfd { fd: end.pipe[0], events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&mut polled, 1, -1) };
    }
    black_box(());
}

#[inline(never)]
fn in_epoll(end: &End) {
    while !end.is_over() {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for one event.
        unsafe { libc::epoll_wait(end.epoll, &mut event, 1, -1) };
    }
    black_box(());
}

#[inline(never)]
fn in_read(end: &End) {
    while !end.is_over() {
        let mut byte = 0u8;
        // SAFETY: room for one byte.
        unsafe { libc::read(end.pipe[0], (&raw mut byte).cast(), 1) };
    }
    black_box(());
}

#[inline(never)]
fn in_accept(end: &End) {
    while !end.is_over() {
        // SAFETY: nothing is asked of the peer.
        unsafe { libc::accept(end.socket, std::ptr::null_mut(), std::ptr::null_mut()) };
    }
    black_box(());
}

/// Waits in the kernel, where no signal and no tracer reaches it, until its child ends, which waits for the same futex.
/// By the C library's function: while it waits, its return address is in a register, and nowhere on the stack.
#[inline(never)]
fn in_vfork(end: &End) {
    #[cfg(target_arch = "x86_64")]
    {
        unsafe extern "C" {
            fn vfork() -> i32;
        }
        // SAFETY: the child makes two system calls, with registers alone, and ends.
        unsafe {
            std::arch::asm!(
                "call {vfork}",
                "test eax, eax",
                "jnz 3f",
                "2: mov eax, 202",
                "mov rdi, r12",
                "xor esi, esi",
                "xor edx, edx",
                "xor r10d, r10d",
                "syscall",
                "cmp dword ptr [r12], 0",
                "je 2b",
                "mov eax, 60",
                "xor edi, edi",
                "syscall",
                "3:",
                vfork = sym vfork,
                in("r12") end.flag.as_ptr(),
                clobber_abi("C"),
            );
        }
    }
    black_box(end);
}

#[inline(never)]
fn deaf_to_signals(end: &End) {
    // SAFETY: sets of the calling thread's own mask.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
    }
    in_read(end);
    black_box(());
}

#[inline(never)]
fn spinning(end: &End) {
    while !end.is_over() {
        std::hint::spin_loop();
    }
    black_box(());
}

#[inline(never)]
fn allocating(end: &End) {
    let mut size = 1;
    while !end.is_over() {
        drop(black_box(vec![0u8; size]));
        size = size * 7 % 100_003;
    }
    black_box(());
}

/// Many threads in one state.
struct Crowd {
    end: &'static End,
    ids: Vec<ThreadId>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    fn start(state: State, count: usize) -> Self {
        static BEGUN: AtomicUsize = AtomicUsize::new(0);
        BEGUN.store(0, Ordering::SeqCst);
        let end: &'static End = Box::leak(Box::new(End::new()));
        let (send, receive) = std::sync::mpsc::channel();
        let threads: Vec<_> = (0..count)
            .map(|_| {
                let send = send.clone();
                let thread = std::thread::Builder::new().stack_size(128 << 10).spawn(move || {
                    send.send(current()).unwrap();
                    drop(send);
                    if state.runs {
                        // Many that run leave nothing of the processors to who captures them; and they begin together.
                        // SAFETY: a number of the calling thread's.
                        unsafe { libc::setpriority(libc::PRIO_PROCESS, current().0 as u32, 19) };
                        end.wait_for(&end.go);
                    }
                    BEGUN.fetch_add(1, Ordering::SeqCst);
                    (state.be)(end);
                });
                thread.unwrap()
            })
            .collect();
        let ids: Vec<ThreadId> = (0..count).map(|_| receive.recv().unwrap()).collect();
        end.go.store(1, Ordering::SeqCst);
        end.wake(&end.go);
        while BEGUN.load(Ordering::SeqCst) < count {
            std::thread::yield_now();
        }
        let waits = |id: &ThreadId| !matches!(facts(*id).state, RunState::Running);
        while !state.runs && !ids.iter().all(waits) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Self { end, ids, threads }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.end.end();
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
        // Children of a vfork are nobody's business else.
        // SAFETY: takes the status of children that have ended.
        while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
    }
}

struct Storage {
    images: ImageTable,
    snapshot: Snapshot<1200, 40_000, { 12 << 20 }>,
}

static STORAGE: Mutex<Storage> = Mutex::new(Storage { images: ImageTable::new(), snapshot: Snapshot::new() });

/// Captures a crowd until each of it was caught in its function: one that runs may be on its way there. Returns what the
/// last capture held of it.
fn capture(suspender: &Suspender, crowd: &Crowd, state: State, purpose: Purpose) -> (Vec<Held>, Set) {
    let mut storage = STORAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let Storage { images, snapshot } = &mut *storage;
    images.refresh().unwrap();
    let patience = Patience { stop_within_ns: 20_000_000_000, hold_at_most_ns: 20_000_000_000 };
    let options = Options {
        purpose,
        exclude: deaf(),
        first_patience: patience,
        other_patience: patience,
        all_within_ns: 60_000_000_000,
        ..Options::default()
    };
    let function = state.be as usize;
    let begun = Instant::now();
    loop {
        snapshot.capture(suspender, images, &options).unwrap();
        let view = snapshot.view();
        assert_eq!(view.dropped_threads, 0);
        let threads: HashMap<ThreadId, _> =
            view.threads.iter().map(|thread| (thread.thread, thread)).collect();
        let mut lost = Vec::new();
        let mut held = Vec::new();
        for id in &crowd.ids {
            let thread = threads.get(id).unwrap_or_else(|| panic!("{id:?} is not listed"));
            assert!(!matches!(thread.held, Held::Not(_) | Held::Torn), "{}: {thread:?}", state.name);
            let frames = view.frames(thread);
            if !frames.iter().any(|frame| is_in(frame.address.lookup(), function)) {
                lost.push((**thread, frames.to_vec()));
            }
            held.push(thread.held);
        }
        if lost.is_empty() {
            return (held, view.set);
        }
        // A thread on its way into its system call, or in the last instructions of one.
        let (thread, frames) = &lost[0];
        let shown: Vec<u64> = frames.iter().map(|frame| frame.address.lookup()).collect();
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "{}: {} of {} are not in {function:#x}: {thread:?} {shown:#x?}",
            state.name,
            lost.len(),
            crowd.ids.len()
        );
    }
}

fn print(state: State, count: usize, purpose: Purpose, held: &[Held], set: Set) {
    let nanoseconds = |held: &Held| match held {
        Held::Signal { held_ns } | Held::Ptrace { held_ns } => *held_ns,
        _ => 0,
    };
    let mut times: Vec<u64> = held.iter().map(nanoseconds).collect();
    times.sort_unstable();
    let way = |wanted: fn(&Held) -> bool| held.iter().filter(|held| wanted(held)).count();
    let together = match set {
        Set::Together { held_ns } => format!("{} µs", held_ns / 1000),
        Set::OneByOne => "-".into(),
        Set::NotTogether(error) => error.to_string(),
    };
    println!(
        "{:16} {count:5} {:12} | {:5} {:6} {:6} | {:8.1} {:8.1} µs | {together}",
        state.name,
        format!("{purpose:?}"),
        way(|held| matches!(held, Held::Peek)),
        way(|held| matches!(held, Held::Signal { .. })),
        way(|held| matches!(held, Held::Ptrace { .. })),
        times[times.len() / 2] as f64 / 1000.0,
        times[times.len() * 99 / 100] as f64 / 1000.0,
    );
}

/// Where it matters most that a thread is read at all.
fn every_state(count: usize) {
    let (_turn, suspender) = turn();
    println!(
        "state            count purpose      |  peek signal ptrace |  held p50      p99     | held together"
    );
    for state in STATES {
        if state.name == "vfork's wait" && cfg!(not(target_arch = "x86_64")) {
            continue;
        }
        // An emulator permits no tracing, which is all that such a thread can be read by while it runs.
        if state.name == "deaf to signals" && !deaf().is_empty() {
            continue;
        }
        let crowd = Crowd::start(state, count);
        for purpose in [Purpose::AllTogether, Purpose::OneThread] {
            // One by one, each of many that run would wait for its processor.
            if state.runs && purpose == Purpose::OneThread {
                continue;
            }
            let (held, set) = capture(&suspender, &crowd, state, purpose);
            print(state, count, purpose, &held, set);
            if cfg!(target_arch = "x86_64") {
                assert_eq!(matches!(set, Set::Together { .. }), purpose == Purpose::AllTogether, "{set:?}");
            }
        }
    }
}

#[test]
fn a_hundred_threads_are_captured_in_every_state() {
    every_state(if cfg!(target_arch = "x86_64") { 128 } else { 8 });
}

#[test]
fn a_thousand_threads_are_captured_in_every_state() {
    // An emulator is too slow for so many; and without optimization fewer will do.
    if cfg!(target_arch = "x86_64") {
        every_state(if cfg!(debug_assertions) { 256 } else { 1024 });
    }
}
