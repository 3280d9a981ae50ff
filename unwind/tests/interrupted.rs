//! Which system calls end with `EINTR` because their thread was captured, by the way in which it was.
#![cfg(any(target_os = "linux", target_os = "android"))]

mod common;

use common::{asleep, deaf, turn};
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::snapshot::{Held, Options, Snapshot};
use freezeframe_unwind::suspend::{Patience, Purpose, Way, Ways};
use freezeframe_unwind::threads::{ThreadId, current};
use freezeframe_unwind::walk::StopReason;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};

/// Descriptors on which nothing ever happens, until they are closed.
#[derive(Clone, Copy)]
struct Silent {
    pipe: i32,
    epoll: i32,
    socket: i32,
    timed_socket: i32,
    listener: i32,
    semaphores: i32,
}

static FUTEX: AtomicU32 = AtomicU32::new(0);
/// Long enough that only an interruption ends it while a test looks.
const LONG: libc::timespec = libc::timespec { tv_sec: 600, tv_nsec: 0 };

/// Whom a call is interrupted by: signals, and the tracer.
type Expected = (bool, bool);
const NOBODY: Expected = (false, false);
const SIGNALS: Expected = (true, false);
const BOTH: Expected = (true, true);

const CALLS: [(&str, Expected); 14] = [
    ("read", NOBODY),
    ("recv", NOBODY),
    ("accept", NOBODY),
    ("wait4", NOBODY),
    ("futex", NOBODY),
    ("futex, timed", SIGNALS),
    ("nanosleep", SIGNALS),
    ("poll", SIGNALS),
    ("select", SIGNALS),
    ("pause", SIGNALS),
    ("epoll_wait", BOTH),
    ("recv, timed", BOTH),
    ("semtimedop", BOTH),
    ("sigtimedwait", BOTH),
];

/// Whose frame has such a local is found from its frame pointer only, which a peek does not have.
#[repr(align(256))]
struct Aligned(u8);

/// Enters the call of that name, and returns what it does.
fn enter(name: &str, silent: Silent) -> i64 {
    use std::ptr::null_mut;
    let aligned = black_box(Aligned(0));
    let mut byte = [aligned.0];
    let byte = byte.as_mut_ptr().cast();
    let mut polled = libc::pollfd { fd: silent.pipe, events: libc::POLLIN, revents: 0 };
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    let mut operation = libc::sembuf { sem_num: 0, sem_op: -1, sem_flg: 0 };
    // SAFETY: pointers to locals that live as long as the call, and to a word that lives for good.
    unsafe {
        let (mut files, mut signals) = std::mem::zeroed();
        libc::FD_SET(silent.pipe, &mut files);
        libc::sigemptyset(&mut signals);
        libc::sigaddset(&mut signals, libc::SIGUSR2);
        let word = FUTEX.as_ptr();
        match name {
            "read" => libc::read(silent.pipe, byte, 1) as i64,
            "recv" => libc::recv(silent.socket, byte, 1, 0) as i64,
            "recv, timed" => libc::recv(silent.timed_socket, byte, 1, 0) as i64,
            "accept" => libc::accept(silent.listener, null_mut(), null_mut()).into(),
            "wait4" => libc::waitpid(-1, null_mut(), 0).into(),
            "futex" => {
                let never = null_mut::<libc::timespec>();
                libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, 0, never)
            }
            "futex, timed" => libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, 0, &LONG),
            "nanosleep" => libc::nanosleep(&LONG, null_mut()).into(),
            "poll" => libc::poll(&mut polled, 1, -1).into(),
            "select" => libc::select(silent.pipe + 1, &mut files, null_mut(), null_mut(), null_mut()).into(),
            "pause" => libc::pause().into(),
            "epoll_wait" => libc::epoll_wait(silent.epoll, &mut event, 1, -1).into(),
            "semtimedop" => {
                libc::syscall(libc::SYS_semtimedop, silent.semaphores, &raw mut operation, 1, &LONG)
            }
            "sigtimedwait" => libc::sigtimedwait(&signals, null_mut(), &LONG).into(),
            _ => unreachable!("{name}"),
        }
    }
}

impl Silent {
    fn new() -> Self {
        // SAFETY: plain calls with valid pointers; all of it lives as long as the process.
        unsafe {
            let (mut pipe, mut sockets, mut timed) = ([0; 2], [0; 2], [0; 2]);
            assert_eq!(libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC), 0);
            assert_eq!(libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, sockets.as_mut_ptr()), 0);
            assert_eq!(libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, timed.as_mut_ptr()), 0);
            let time = libc::timeval { tv_sec: 600, tv_usec: 0 };
            let (kind, size) = (libc::SO_RCVTIMEO, size_of_val(&time) as u32);
            libc::setsockopt(timed[0], libc::SOL_SOCKET, kind, (&raw const time).cast(), size);
            let epoll = libc::epoll_create1(0);
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
            libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, pipe[0], &mut event);
            let listener = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0);
            let mut address: libc::sockaddr_un = std::mem::zeroed();
            address.sun_family = libc::AF_UNIX as u16;
            libc::bind(listener, (&raw const address).cast(), 2);
            assert_eq!(libc::listen(listener, 1), 0);
            let semaphores = libc::semget(libc::IPC_PRIVATE, 1, 0o600);
            Self { pipe: pipe[0], epoll, socket: sockets[0], timed_socket: timed[0], listener, semaphores }
        }
    }

    /// Ends who waits for them.
    fn remove_semaphores(self) {
        // SAFETY: no pointers.
        unsafe { libc::semctl(self.semaphores, 0, libc::IPC_RMID) };
    }
}

/// For wait4: a child that does not end before this does.
struct Child(i32);

impl Child {
    fn new() -> Self {
        // SAFETY: the child makes one system call.
        match unsafe { libc::fork() } {
            0 => loop {
                // SAFETY: waits.
                unsafe { libc::pause() };
            },
            child => Self(child),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: no pointers; who waits for it takes its end away.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
    }
}

/// A thread in a system call, how often that was interrupted, and whether it has returned at all.
struct Waiting {
    id: ThreadId,
    interrupted: Arc<AtomicU32>,
    over: Arc<AtomicBool>,
}

fn wait_in(name: &'static str, silent: Silent) -> Waiting {
    let (interrupted, over) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let shared = (interrupted.clone(), over.clone());
    let (send, receive) = mpsc::channel();
    // It waits as long as the process lives.
    std::thread::spawn(move || {
        send.send(current()).unwrap();
        while enter(name, silent) == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
        {
            shared.0.fetch_add(1, Ordering::SeqCst);
        }
        shared.1.store(true, Ordering::SeqCst);
    });
    let id = receive.recv().unwrap();
    asleep(id);
    Waiting { id, interrupted, over }
}

static STORAGE: Mutex<(ImageTable, Snapshot<256, 8192, { 2 << 20 }>)> =
    Mutex::new((ImageTable::new(), Snapshot::new()));

#[test]
fn a_peek_interrupts_nothing_and_a_tracer_only_what_the_kernel_does_not_restart() {
    const ROUNDS: u32 = 5;
    let (_turn, suspender) = turn();
    if cfg!(not(target_arch = "x86_64")) {
        println!("skipped: an emulator restarts system calls in its own way");
        return;
    }
    let silent = Silent::new();
    let child = Child::new();
    let waiting: Vec<Waiting> = CALLS.iter().map(|(name, _)| wait_in(name, silent)).collect();
    let mut storage = STORAGE.lock().unwrap();
    let (images, snapshot) = &mut *storage;
    images.refresh().unwrap();
    let patience = Patience { stop_within_ns: 5_000_000_000, hold_at_most_ns: 5_000_000_000 };
    let mut table = vec![Vec::new(); CALLS.len()];
    for way in [Way::Peek, Way::Ptrace, Way::Signal] {
        let purpose = if way == Way::Ptrace { Purpose::AllTogether } else { Purpose::OneThread };
        let options = Options {
            purpose,
            ways: Ways::only(way),
            exclude: deaf(),
            first_patience: patience,
            other_patience: patience,
            all_within_ns: 60_000_000_000,
            ..Options::default()
        };
        let before: Vec<u32> = waiting.iter().map(|w| w.interrupted.load(Ordering::SeqCst)).collect();
        for _ in 0..ROUNDS {
            snapshot.capture(&suspender, images, &options).unwrap();
            for (waiting, (name, _)) in waiting.iter().zip(CALLS) {
                let view = snapshot.view();
                let thread = view.threads.iter().find(|thread| thread.thread == waiting.id).unwrap();
                let right = match thread.held {
                    Held::Peek => way == Way::Peek,
                    Held::Ptrace { .. } => way == Way::Ptrace,
                    Held::Signal { .. } => way == Way::Signal,
                    _ => false,
                };
                assert!(right, "{name} by {way:?}: {:?}", thread.held);
            }
            // Back in their calls.
            waiting.iter().for_each(|waiting| asleep(waiting.id));
        }
        for ((waiting, before), row) in waiting.iter().zip(before).zip(&mut table) {
            row.push(waiting.interrupted.load(Ordering::SeqCst) - before);
        }
    }
    drop(child);
    silent.remove_semaphores();
    println!("EINTR in {ROUNDS} captures by:  peek  ptrace  signal");
    for ((name, _), row) in CALLS.iter().zip(&table) {
        println!("{name:26} {:5} {:7} {:7}", row[0], row[1], row[2]);
    }
    for ((name, (by_signal, by_tracer)), row) in CALLS.iter().zip(&table) {
        assert_eq!(row[0], 0, "{name} by a peek");
        assert_eq!(row[1] > 0, *by_tracer, "{name} by a tracer");
        assert_eq!(row[2] > 0, *by_signal, "{name} by a signal");
    }
    let over = |waiting: &&Waiting| waiting.over.load(Ordering::SeqCst);
    let returned = waiting.iter().zip(CALLS).filter(|(waiting, _)| over(waiting)).map(|(_, call)| call.0);
    let unexpected: Vec<_> = returned.filter(|name| !matches!(*name, "wait4" | "semtimedop")).collect();
    assert!(unexpected.is_empty(), "these have returned: {unexpected:?}");
}

#[test]
fn with_every_way_allowed_only_the_first_thread_is_ever_interrupted_and_only_if_nothing_else_helps() {
    const ROUNDS: u32 = 3;
    let (_turn, suspender) = turn();
    if cfg!(not(target_arch = "x86_64")) {
        println!("skipped: an emulator restarts system calls in its own way");
        return;
    }
    let silent = Silent::new();
    let child = Child::new();
    let waiting: Vec<Waiting> = CALLS.iter().map(|(name, _)| wait_in(name, silent)).collect();
    let mut storage = STORAGE.lock().unwrap();
    let (images, snapshot) = &mut *storage;
    images.refresh().unwrap();
    let patience = Patience { stop_within_ns: 5_000_000_000, hold_at_most_ns: 5_000_000_000 };
    let options = |interrupt| Options {
        interrupt,
        exclude: deaf(),
        first_patience: patience,
        other_patience: patience,
        all_within_ns: 60_000_000_000,
        ..Options::default()
    };
    let interrupted = || waiting.iter().map(|w| w.interrupted.load(Ordering::SeqCst)).collect::<Vec<_>>();
    let before = interrupted();
    for _ in 0..ROUNDS {
        snapshot.capture(&suspender, images, &options(true)).unwrap();
        waiting.iter().for_each(|waiting| asleep(waiting.id));
    }
    assert_eq!(interrupted(), before, "the others, {:?}", CALLS.map(|call| call.0));
    for waiting in &waiting {
        for _ in 0..ROUNDS {
            snapshot.capture_thread(&suspender, images, waiting.id, &options(false));
            asleep(waiting.id);
        }
    }
    assert_eq!(interrupted(), before, "without leave, {:?}", CALLS.map(|call| call.0));
    for (waiting, (name, (_, by_tracer))) in waiting.iter().zip(CALLS) {
        let before = waiting.interrupted.load(Ordering::SeqCst);
        snapshot.capture_thread(&suspender, images, waiting.id, &options(true));
        let thread = snapshot.view().threads[0];
        assert_eq!(thread.summary.stop, StopReason::EndOfStack, "{name}: {:?}", thread.held);
        asleep(waiting.id);
        let after = waiting.interrupted.load(Ordering::SeqCst);
        assert!(after == before || by_tracer, "{name}: {:?}", thread.held);
    }
    drop(child);
    silent.remove_semaphores();
}
