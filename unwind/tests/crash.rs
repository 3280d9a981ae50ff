//! Captures from a real signal handler, on an alternate stack.
#![cfg(target_os = "linux")]

mod common;

use common::{Target, spinning, turn};
use freezeframe_arch::linux::{from_ucontext, ucontext_bytes};
use freezeframe_arch::{Architecture, Registers};
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::rule::Trust;
use freezeframe_unwind::snapshot::{Held, Options, Snapshot};
use freezeframe_unwind::suspend::{Patience, SuspendError, Suspender};
use freezeframe_unwind::threads::current;
use freezeframe_unwind::walk::StopReason;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

struct Storage {
    images: ImageTable,
    snapshot: Snapshot<128, 4096>,
    suspender: Option<Suspender>,
    interrupted: Option<Registers>,
}

static STORAGE: Mutex<Storage> = Mutex::new(Storage {
    images: ImageTable::new(),
    snapshot: Snapshot::new(),
    suspender: None,
    interrupted: None,
});

fn storage() -> MutexGuard<'static, Storage> {
    STORAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A loaded machine takes its time; some threads of an emulator block every signal.
const PATIENCE: Patience = Patience { stop_within_ns: 2_000_000_000, hold_at_most_ns: 20_000_000_000 };

extern "C" fn captures(_signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let bytes = ucontext_bytes(Architecture::NATIVE);
    // SAFETY: the kernel gives a handler a context of this size.
    let bytes = unsafe { std::slice::from_raw_parts(context.cast::<u8>(), bytes) };
    let registers = from_ucontext(Architecture::NATIVE, bytes).unwrap();
    // The signal is raised by the test, which does not hold the lock then.
    let storage = &mut *storage();
    storage.images.refresh().unwrap();
    let Storage { images, snapshot, suspender, interrupted } = storage;
    let options = Options { other_patience: PATIENCE, all_within_ns: 60_000_000_000, ..Options::default() };
    snapshot.capture_from_context(&suspender.unwrap(), images, &registers, &options);
    *interrupted = Some(registers);
}

/// Raises a signal whose handler captures, on a thread with an alternate stack.
#[inline(never)]
fn raise(suspender: Suspender) {
    storage().suspender = Some(suspender);
    // SAFETY: plain data, and a handler that may run where this thread raises it.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = captures as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGUSR1, &action, null_mut());
        libc::raise(libc::SIGUSR1);
    }
    std::hint::black_box(());
}

fn is_in(pc: u64, function: *const ()) -> bool {
    (function as u64..function as u64 + 512).contains(&pc)
}

/// Calls `body` where a handler has room.
fn on_alternate_stack(body: impl FnOnce()) {
    let mut stack = vec![0u8; 256 << 10];
    let ours = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
    // SAFETY: plain data; the thread's own comes back before ours goes away.
    unsafe {
        let mut earlier: libc::stack_t = zeroed();
        assert_eq!(libc::sigaltstack(&ours, &mut earlier), 0);
        body();
        assert_eq!(libc::sigaltstack(&earlier, null_mut()), 0);
    }
}

fn held(storage: &Storage, target: &Target) -> Held {
    let threads = storage.snapshot.view().threads;
    threads.iter().find(|thread| thread.thread == target.id).expect("it is listed").held
}

#[test]
fn the_interrupted_thread_comes_first_without_the_handlers_frames() {
    let (_turn, suspender) = turn();
    let target = spinning();
    on_alternate_stack(|| raise(suspender));
    let storage = storage();
    let view = storage.snapshot.view();
    let first = &view.threads[0];
    assert_eq!((first.thread, first.held, first.registers), (current(), Held::Itself, storage.interrupted));
    assert_eq!(first.summary.stop, StopReason::EndOfStack);
    let frames = view.frames(first);
    assert_eq!((frames[0].address.raw(), frames[0].trust), (first.registers.unwrap().pc(), Trust::Context));
    let has = |function| frames.iter().any(|frame| is_in(frame.address.lookup(), function));
    assert!(has(raise as *const ()) && !has(captures as *const ()), "{frames:x?}");
    assert!(view.threads.iter().filter(|thread| thread.thread == current()).count() == 1);
    assert!(matches!(held(&storage, &target), Held::Signal { .. }));
}

#[test]
fn anothers_session_is_waited_for_and_ones_own_is_given_up() {
    let (_turn, suspender) = turn();
    let target = spinning();
    // Its own, in which it holds a thread.
    let mut session = suspender.session().unwrap();
    let suspended = session.suspend(target.id, PATIENCE).unwrap();
    on_alternate_stack(|| raise(suspender));
    // It may take its time to leave the handler in which it was held, where no signal reaches it.
    let again = held(&storage(), &target);
    assert!(matches!(again, Held::Signal { .. } | Held::Ptrace { .. }), "{again:?}");
    drop(suspended);
    drop(session);

    let (send, begun) = mpsc::channel();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let other = std::thread::spawn(move || {
        let session = suspender.session().unwrap();
        send.send(()).unwrap();
        while !stopped.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(session);
        send.send(()).unwrap();
    });
    begun.recv().unwrap();
    on_alternate_stack(|| raise(suspender));
    assert_eq!(held(&storage(), &target), Held::Not(SuspendError::Busy), "the other did not end");
    assert_eq!(storage().snapshot.view().threads[0].held, Held::Itself);
    stop.store(true, Ordering::Relaxed);
    on_alternate_stack(|| raise(suspender));
    assert!(matches!(held(&storage(), &target), Held::Signal { .. }), "it ended meanwhile");
    begun.recv().unwrap();
    other.join().unwrap();
    assert!(suspender.session().is_ok(), "nobody has it now");
}
