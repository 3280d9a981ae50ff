//! What there is no more of.

use crate::common::spin_inner;
use crate::harness::{
    Captured, STORAGE, Threads, alone, become_nobody, capture, one_by_one, ready, together,
};
use freezeframe_unwind::init::{Config, init};
use freezeframe_unwind::snapshot::{Held, Options, Set};
use freezeframe_unwind::suspend::SuspendError;

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
    alone(0, body, |_| {});
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
    alone(0, body, |_| {});
}

/// Opens files until that fails, after it has set the limit so low.
fn use_up_descriptors(most: u64) -> Vec<std::fs::File> {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: reads one structure.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect()
}

#[test]
fn where_no_descriptor_is_left_all_threads_are_read_as_ever() {
    let body = |_| {
        let (suspender, threads) = (ready(), Threads::start());
        let files = use_up_descriptors(64);
        assert!(files.len() > 40);
        for _ in 0..100 {
            let captured = capture(&suspender, one_by_one());
            assert_eq!((captured.held(threads.waits.id), captured.set), (Held::Peek, Set::OneByOne));
            let runs = captured.thread(threads.runs.id);
            // It may not have left the handler of the last capture's signal yet.
            assert!(matches!(runs.held, Held::Signal { .. } | Held::Ptrace { .. }), "{runs:?}");
            let deaf = captured.thread(threads.deaf.id);
            assert!(matches!(deaf.held, Held::Ptrace { .. }), "{deaf:?}");
            assert_eq!(deaf.not_better, Some(SuspendError::SignalBlocked));
            assert_eq!(captured.thread(threads.waits.id).facts.name.bytes(), b"is parked");
            assert!(captured.is_in(threads.runs.id, spin_inner as *const () as usize));
            assert!(std::fs::File::open("/dev/null").is_err(), "there is none that was not there before");
        }
        let captured = capture(&suspender, together());
        assert!(matches!(captured.set, Set::Together { held_ns: 1.. }), "{:?}", captured.set);
        threads.assert_go_on();
    };
    alone(0, body, |_| {});
}

#[test]
fn where_no_descriptor_may_be_used_any_more_all_threads_are_stopped_and_read() {
    let body = |_| {
        let (suspender, threads) = (ready(), Threads::start());
        STORAGE.lock().unwrap().0.refresh().unwrap();
        assert_eq!(use_up_descriptors(0).len(), 0);
        for options in [one_by_one(), together()] {
            let captured = capture(&suspender, options);
            assert_ne!(captured.set, Set::NotTogether(SuspendError::Unlisted));
            for id in [threads.waits.id, threads.runs.id, threads.deaf.id] {
                let thread = captured.thread(id);
                assert!(matches!(thread.held, Held::Signal { .. } | Held::Ptrace { .. }), "{thread:?}");
                assert!(thread.summary.kept > 3);
            }
            assert!(captured.is_in(threads.deaf.id, spin_inner as *const () as usize));
        }
        threads.assert_go_on();
    };
    alone(0, body, |_| {});
}

#[test]
fn descriptors_that_the_program_has_made_its_own_are_left_alone() {
    let body = |_| {
        let (suspender, threads) = (ready(), Threads::start());
        STORAGE.lock().unwrap().0.refresh().unwrap();
        // SAFETY: as a program does that becomes a service; nothing here uses one of them any more.
        assert_eq!(unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) }, 0);
        let files = use_up_descriptors(64);
        assert_eq!(files.len(), 61);
        let options = Options { first: Some(threads.runs.id), ..one_by_one() };
        let captured = capture(&suspender, options);
        assert_eq!(captured.set, Set::NotTogether(SuspendError::Unlisted));
        assert!(captured.is_in(threads.runs.id, spin_inner as *const () as usize));
        for file in &files {
            use std::os::fd::AsRawFd;
            let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
            assert_eq!(path.to_str(), Some("/dev/null"));
        }
        threads.assert_go_on();
    };
    alone(0, body, |_| {});
}
