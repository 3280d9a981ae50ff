//! Threads to capture, and who may capture when.
#![allow(dead_code)]

use freezeframe_unwind::init::{Config, init};
use freezeframe_unwind::suspend::{Patience, Suspender};
use freezeframe_unwind::threads::{RunState, ThreadId, current, facts, list};
use std::hint::black_box;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Long enough that only a hang reaches it, however loaded the machine is.
pub(crate) const PATIENT: Patience =
    Patience { stop_within_ns: 20_000_000_000, hold_at_most_ns: 20_000_000_000 };

/// Tests share one process and so one handshake: they take turns.
pub(crate) fn turn() -> (MutexGuard<'static, ()>, Suspender) {
    static TURN: Mutex<()> = Mutex::new(());
    let guard = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    (guard, init(Config::default()).unwrap())
}

/// Threads that never take our signal and so would cost all of our patience: an emulator's own. qemu-user has one. Where
/// threads are stopped without a signal there are none.
pub(crate) fn deaf() -> &'static [ThreadId] {
    static DEAF: OnceLock<Vec<ThreadId>> = OnceLock::new();
    DEAF.get_or_init(|| {
        if !cfg!(target_os = "linux") {
            return Vec::new();
        }
        let mut ids = [ThreadId(0); 64];
        let count = list(&mut ids).unwrap().min(ids.len());
        let mut deaf = ids[..count].to_vec();
        // A thread that begins or ends blocks signals for a moment only.
        for _ in 0..200 {
            deaf.retain(|thread| blocks_our_signal(*thread));
            if deaf.is_empty() {
                return deaf;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // Not captured, unlike what `eprintln` prints.
        let message = format!("left out: {deaf:?}, which block our signal\n");
        std::io::stderr().write_all(message.as_bytes()).unwrap();
        deaf
    })
}

fn blocks_our_signal(thread: ThreadId) -> bool {
    let status = std::fs::read_to_string(format!("/proc/self/task/{}/status", thread.0)).unwrap_or_default();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    let blocked = blocked.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    blocked.is_some_and(|set| set & 1 << (libc::SIGURG - 1) != 0)
}

/// A thread that runs until this is dropped.
pub(crate) struct Target {
    pub(crate) id: ThreadId,
    /// Counted up by a thread that spins.
    pub(crate) turns: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Target {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().unwrap();
        thread.thread().unpark();
        thread.join().unwrap();
    }
}

pub(crate) fn start(name: &str, body: impl FnOnce(&AtomicBool, &AtomicU64) + Send + 'static) -> Target {
    let (stop, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (send, receive) = mpsc::channel();
    let shared = (stop.clone(), turns.clone());
    let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
        send.send(current()).unwrap();
        body(&shared.0, &shared.1);
    });
    Target { id: receive.recv().unwrap(), turns, stop, thread: Some(thread.unwrap()) }
}

/// Burns a processor in [`spin_inner`], called by [`spin_outer`].
pub(crate) fn spinning() -> Target {
    let target = start("spins", spin_outer);
    while target.turns.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    target
}

#[inline(never)]
pub(crate) fn spin_outer(stop: &AtomicBool, turns: &AtomicU64) {
    spin_inner(stop, turns);
    black_box(());
}

#[inline(never)]
pub(crate) fn spin_inner(stop: &AtomicBool, turns: &AtomicU64) {
    while !stop.load(Ordering::Relaxed) {
        turns.fetch_add(1, Ordering::Relaxed);
        // Most of the time is spent here, in no function that this one calls.
        let mut n = 0;
        while n < 10_000 {
            // SAFETY: does nothing; keeps the loop.
            unsafe { std::arch::asm!("nop") };
            n += 1;
        }
    }
    black_box(());
}

/// Sleeps in a futex.
pub(crate) fn parked() -> Target {
    let target = start("is parked", |stop, _| {
        while !stop.load(Ordering::Relaxed) {
            std::thread::park();
        }
    });
    asleep(target.id);
    target
}

/// Waits until a thread sleeps.
pub(crate) fn asleep(thread: ThreadId) {
    while facts(thread).state != RunState::Sleeping {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Recurses `depth` deep in [`recurse`], then is parked.
pub(crate) fn deep(depth: u64) -> Target {
    let body = move |stop: &AtomicBool, turns: &AtomicU64| {
        black_box(recurse(depth, stop, turns));
    };
    let (stop, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (send, receive) = mpsc::channel();
    let shared = (stop.clone(), turns.clone());
    let builder = std::thread::Builder::new().name("is deep".into()).stack_size(64 << 20);
    let thread = builder.spawn(move || {
        send.send(current()).unwrap();
        body(&shared.0, &shared.1);
    });
    let target = Target { id: receive.recv().unwrap(), turns, stop, thread: Some(thread.unwrap()) };
    while target.turns.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    asleep(target.id);
    target
}

#[inline(never)]
pub(crate) fn recurse(depth: u64, stop: &AtomicBool, turns: &AtomicU64) -> u64 {
    if depth == 0 {
        turns.store(1, Ordering::Relaxed);
        while !stop.load(Ordering::Relaxed) {
            std::thread::park();
        }
        return 0;
    }
    black_box(recurse(depth - 1, stop, turns)) + 1
}

/// Whether `pc` lies near the start of the function at `function`. A function next to it may be as near.
pub(crate) fn is_in(pc: u64, function: usize) -> bool {
    (function as u64..function as u64 + 512).contains(&pc)
}

/// Calls [`interrupted`], which raises a signal whose handler, [`handler`], parks: on an alternate stack, or on the
/// thread's own.
pub(crate) fn in_a_handler(alternate: bool) -> Target {
    let target = start("handles", move |stop, turns| {
        STOP.store(std::ptr::from_ref(stop).cast_mut(), Ordering::SeqCst);
        let mut stack = vec![0u8; 64 << 10];
        // SAFETY: the alternate stack outlives its use, and the handler touches an atomic that outlives the thread.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = if alternate { libc::SA_ONSTACK } else { 0 };
            assert_eq!(libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()), 0);
            let (sp, size) = (stack.as_mut_ptr().cast(), stack.len());
            let new = libc::stack_t { ss_sp: sp, ss_flags: 0, ss_size: size };
            let mut old: libc::stack_t = std::mem::zeroed();
            assert_eq!(libc::sigaltstack(&new, &mut old), 0);
            interrupted(turns);
            assert_eq!(libc::sigaltstack(&old, std::ptr::null_mut()), 0);
        }
    });
    while target.turns.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    asleep(target.id);
    target
}

static STOP: std::sync::atomic::AtomicPtr<AtomicBool> =
    std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());

#[inline(never)]
pub(crate) fn interrupted(turns: &AtomicU64) {
    turns.store(1, Ordering::Relaxed);
    // SAFETY: a signal that has a handler.
    unsafe { libc::raise(libc::SIGUSR2) };
    black_box(());
}

pub(crate) extern "C" fn handler(_: i32) {
    // SAFETY: set before the signal was raised; the flag lives as long as the thread.
    while !unsafe { &*STOP.load(Ordering::SeqCst) }.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
    }
}
