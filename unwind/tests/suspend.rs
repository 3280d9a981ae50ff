//! The handshake on real threads: it stops them, lets them go, and nothing that a thread does or fails to do can hang
//! the capturer or leave a thread standing.
#![cfg(target_os = "linux")]

mod common;

use common::{PATIENT, asleep, parked, spinning, turn};
use freezeframe_unwind::suspend::{Patience, Release, SuspendError};
use freezeframe_unwind::threads::{RunState, ThreadId, current, facts};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

#[test]
fn a_running_thread_stands_still_while_it_is_held_and_goes_on_after() {
    let (_turn, suspender) = turn();
    let target = spinning();
    let mut session = suspender.session().unwrap();
    let held = session.suspend(target.id, PATIENT).unwrap();
    let before = target.turns.load(Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(target.turns.load(Ordering::SeqCst), before, "it stands still");
    let Release::Whole { held_ns } = held.release() else { panic!("nothing expires in 20 s") };
    assert!(held_ns >= 20_000_000, "held for the 20 ms that this slept, not {held_ns} ns");
    while target.turns.load(Ordering::SeqCst) == before {
        std::thread::yield_now();
    }
}

#[test]
fn dropping_the_guard_lets_the_thread_go() {
    let (_turn, suspender) = turn();
    let target = spinning();
    let mut session = suspender.session().unwrap();
    for _ in 0..100 {
        drop(session.suspend(target.id, PATIENT).unwrap());
        let before = target.turns.load(Ordering::SeqCst);
        while target.turns.load(Ordering::SeqCst) == before {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_blocked_thread_goes_back_to_its_wait() {
    let (_turn, suspender) = turn();
    let target = parked();
    let mut session = suspender.session().unwrap();
    for _ in 0..50 {
        let held = session.suspend(target.id, PATIENT).unwrap();
        assert!(matches!(held.release(), Release::Whole { .. }));
    }
    asleep(target.id);
}

#[test]
fn a_thread_that_blocks_the_signal_costs_a_bounded_wait_and_may_answer_late() {
    let (_turn, suspender) = turn();
    let (unblock, wait) = mpsc::channel::<()>();
    let (ready, is_ready) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        // SAFETY: sets of the calling thread's own mask.
        unsafe {
            let (mut all, mut old) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
            ready.send(current()).unwrap();
            wait.recv().unwrap();
            libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut());
            ready.send(current()).unwrap();
            let _ = wait.recv();
        }
    });
    let id = is_ready.recv().unwrap();
    let mut session = suspender.session().unwrap();
    let begun = Instant::now();
    let patience = Patience { stop_within_ns: 30_000_000, ..PATIENT };
    assert_eq!(session.suspend(id, patience).err(), Some(SuspendError::SignalBlocked));
    assert!((30..5_000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    unblock.send(()).unwrap();
    assert_eq!(is_ready.recv().unwrap(), id, "the late signal is harmless");
    assert!(session.suspend(id, PATIENT).is_ok(), "and the thread can be stopped from now on");
    drop(unblock);
    thread.join().unwrap();
}

#[test]
fn a_held_thread_goes_on_at_its_own_deadline_and_the_capturer_learns_it() {
    let (_turn, suspender) = turn();
    let target = spinning();
    let mut session = suspender.session().unwrap();
    let patience = Patience { hold_at_most_ns: 0, stop_within_ns: 50_000_000 };
    let Ok(held) = session.suspend(target.id, patience) else {
        // On a machine so loaded that 50 ms were not enough, there is nothing to see here.
        println!("skipped: the target did not stop in 50 ms");
        return;
    };
    let before = target.turns.load(Ordering::SeqCst);
    while target.turns.load(Ordering::SeqCst) == before {
        std::thread::yield_now();
    }
    assert_eq!(held.release(), Release::Torn, "the capturer held on for longer than the thread agreed to");
}

#[test]
fn what_is_no_other_thread_of_this_process_is_refused() {
    let (_turn, suspender) = turn();
    let mut session = suspender.session().unwrap();
    assert_eq!(session.suspend(current(), PATIENT).err(), Some(SuspendError::Itself));
    let ended = std::thread::spawn(current).join().unwrap();
    // Joining does not wait for the kernel to forget the thread, which takes a signal until then.
    while facts(ended).state != RunState::Unknown {
        std::thread::yield_now();
    }
    assert_eq!(session.suspend(ended, PATIENT).err(), Some(SuspendError::Gone));
    assert_eq!(session.suspend(ThreadId(1), PATIENT).err(), Some(SuspendError::Gone), "another process's");
}

#[test]
fn one_session_at_a_time_and_a_dead_owner_does_not_keep_it() {
    let (_turn, suspender) = turn();
    let session = suspender.session().unwrap();
    assert_eq!(suspender.session().err(), Some(SuspendError::Busy));
    drop(session);
    std::thread::spawn(move || std::mem::forget(suspender.session().unwrap())).join().unwrap();
    let begun = Instant::now();
    // The kernel may take a moment to forget the thread.
    let session = loop {
        match suspender.session() {
            Ok(session) => break session,
            Err(_) => assert!(begun.elapsed() < Duration::from_secs(20)),
        }
    };
    drop(session);
}

#[test]
fn a_replaced_handler_is_noticed_before_anything_is_sent() {
    let (_turn, suspender) = turn();
    let target = parked();
    let mut session = suspender.session().unwrap();
    // SAFETY: the action is put back below; SIG_IGN runs no code.
    unsafe {
        let (mut ignore, mut ours): (libc::sigaction, libc::sigaction) =
            (std::mem::zeroed(), std::mem::zeroed());
        ignore.sa_sigaction = libc::SIG_IGN;
        assert_eq!(libc::sigaction(libc::SIGURG, &ignore, &mut ours), 0);
        assert_eq!(session.suspend(target.id, PATIENT).err(), Some(SuspendError::HandlerReplaced));
        assert_eq!(libc::sigaction(libc::SIGURG, &ours, std::ptr::null_mut()), 0);
    }
    assert!(session.suspend(target.id, PATIENT).is_ok());
}

#[test]
fn a_forked_child_begins_afresh_even_if_its_parent_was_in_a_session() {
    let (_turn, suspender) = turn();
    let target = parked();
    let mut session = suspender.session().unwrap();
    let held = session.suspend(target.id, PATIENT).unwrap();
    // SAFETY: the child only makes system calls and exits.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            let free = suspender.session().is_ok();
            libc::_exit(if free { 7 } else { 8 });
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        status
    };
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "status {status:#x}");
    assert!(matches!(held.release(), Release::Whole { .. }));
}

#[test]
fn no_queue_entry_for_a_signal_is_no_obstacle() {
    let (_turn, suspender) = turn();
    let target = parked();
    let mut session = suspender.session().unwrap();
    // SAFETY: plain calls; the soft limit is put back below.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_SIGPENDING, &mut limit), 0);
        let none = libc::rlimit { rlim_cur: 0, rlim_max: limit.rlim_max };
        assert_eq!(libc::setrlimit(libc::RLIMIT_SIGPENDING, &none), 0);
        let stopped = session.suspend(target.id, PATIENT).map(|held| held.release());
        assert_eq!(libc::setrlimit(libc::RLIMIT_SIGPENDING, &limit), 0);
        assert!(matches!(stopped, Ok(Release::Whole { .. })), "{stopped:?}");
    }
}

/// Threads that spin, sleep, allocate and block signals, stopped with a patience so short that every way to fail is
/// taken: nothing hangs, and every thread keeps making progress.
#[test]
fn a_storm_of_impatient_captures_hangs_nobody() {
    let (_turn, suspender) = turn();
    let stop = Arc::new(AtomicBool::new(false));
    let progress: Vec<Arc<AtomicU64>> = (0..8).map(|_| Arc::default()).collect();
    let (send, receive) = mpsc::channel();
    let threads: Vec<_> = progress
        .iter()
        .cloned()
        .enumerate()
        .map(|(n, progress)| {
            let (stop, send) = (stop.clone(), send.clone());
            std::thread::spawn(move || {
                send.send(current()).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    match n % 4 {
                        0 => std::thread::sleep(Duration::from_micros(200)),
                        1 => drop(std::hint::black_box(vec![0u8; 100_000])),
                        2 => block_signals_for_a_moment(),
                        _ => std::hint::spin_loop(),
                    }
                    progress.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let ids: Vec<ThreadId> = (0..8).map(|_| receive.recv().unwrap()).collect();
    let mut session = suspender.session().unwrap();
    let (mut whole, mut torn, mut failed) = (0, 0, 0);
    for round in 0..4_000u64 {
        let patience =
            Patience { stop_within_ns: 20_000 << (round % 8), hold_at_most_ns: 20_000 << (round / 8 % 8) };
        match session.suspend(ids[round as usize % 8], patience).map(|held| held.release()) {
            Ok(Release::Whole { .. }) => whole += 1,
            Ok(Release::Torn) => torn += 1,
            Err(SuspendError::NotInTime | SuspendError::SignalBlocked | SuspendError::Busy) => failed += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    drop(session);
    println!("{whole} whole, {torn} torn, {failed} not in time");
    assert!(whole > 0);
    let before: Vec<u64> = progress.iter().map(|p| p.load(Ordering::Relaxed)).collect();
    let begun = Instant::now();
    while progress.iter().zip(&before).any(|(now, before)| now.load(Ordering::Relaxed) == *before) {
        assert!(begun.elapsed() < Duration::from_secs(60), "a thread was left standing");
        std::thread::sleep(Duration::from_millis(1));
    }
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn block_signals_for_a_moment() {
    // SAFETY: sets of the calling thread's own mask.
    unsafe {
        let (mut all, mut old) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        std::thread::sleep(Duration::from_micros(100));
        libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut());
    }
}
