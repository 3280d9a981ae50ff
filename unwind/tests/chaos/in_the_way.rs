//! Threads, and what others do to the process, that stand in the way of a capture.

use crate::common::{self, spin_inner};
use crate::harness::{Captured, Threads, alone, capture, deaf, one_by_one, ready, together};
use freezeframe_unwind::snapshot::{Held, Options, Set};
use freezeframe_unwind::suspend::{Patience, Purpose, SuspendError, Way, Ways};
use freezeframe_unwind::threads::ThreadId;
use std::time::Duration;

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
    alone(0, body, |_| {});
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
    alone(0, body, |_| {});
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
    alone(0, body, |_| {});
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
    alone(0, body, |_| {});
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
    alone(0, body, |_| {});
}

#[test]
fn threads_that_block_every_signal_are_not_waited_for_one_after_the_other() {
    let body = |_| {
        let suspender = ready();
        let threads: Vec<_> = (0..40).map(|_| deaf()).collect();
        // A few of them, waited for, would use it up.
        let patience = Patience { stop_within_ns: 10_000_000_000, hold_at_most_ns: 1_000_000_000 };
        let options = Options { other_patience: patience, all_within_ns: 30_000_000_000, ..one_by_one() };
        let captured = capture(&suspender, options);
        for thread in &threads {
            let deaf = captured.thread(thread.id);
            assert!(matches!(deaf.held, Held::Ptrace { .. }), "{deaf:?}");
            assert_eq!(deaf.not_better, Some(SuspendError::SignalBlocked));
            assert!(captured.is_in(thread.id, spin_inner as *const () as usize));
        }
        // Not even the one that matters most, before it is the helper's turn.
        let first_patience = patience;
        let first = Options { first: Some(threads[20].id), first_patience, all_within_ns: 0, ..options };
        let captured = capture(&suspender, first);
        assert!(matches!(captured.held(threads[20].id), Held::Ptrace { .. }));
        assert_eq!(captured.held(threads[0].id), Held::Not(SuspendError::OutOfTime));
    };
    alone(0, body, |_| {});
}

#[test]
fn where_there_is_nobody_else_or_no_time_that_is_what_is_said() {
    let body = |_| {
        let suspender = ready();
        let main = [ThreadId(std::process::id() as i32)];
        let captured = capture(&suspender, Options { exclude: &main, ..together() });
        assert_eq!((captured.set, captured.threads.len()), (Set::Together { held_ns: 0 }, 1));
        let threads = Threads::start();
        let hasty = Patience { stop_within_ns: 1, hold_at_most_ns: 1_000_000_000 };
        let captured = capture(&suspender, Options { first_patience: hasty, ..together() });
        let late = [SuspendError::HelperLate, SuspendError::NotInTime].map(Set::NotTogether);
        assert!(late.contains(&captured.set), "{:?}", captured.set);
        // They may not have gone on yet from what the helper had begun.
        for id in [threads.waits.id, threads.runs.id] {
            let held = captured.held(id);
            assert!(matches!(held, Held::Peek | Held::Signal { .. } | Held::Ptrace { .. }), "{held:?}");
        }
        threads.assert_go_on();
    };
    alone(0, body, |_| {});
}
