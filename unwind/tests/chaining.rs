//! A program that uses our signal itself keeps getting it. In a process of its own, since the handler that was there
//! before ours is asked for once.
#![cfg(target_os = "linux")]

mod common;

use common::{PATIENT, parked, turn};
use freezeframe_unwind::suspend::Release;
use std::sync::atomic::{AtomicU32, Ordering};

static CALLS: AtomicU32 = AtomicU32::new(0);

extern "C" fn program_handler(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: SA_SIGINFO gives a valid siginfo.
    let same = unsafe { (*info).si_signo } == signal;
    CALLS.fetch_add(if same { 1 } else { 1000 }, Ordering::SeqCst);
}

#[test]
fn the_programs_handler_gets_its_signals_and_none_of_ours() {
    // SAFETY: the handler only touches an atomic.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = program_handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGURG, &action, std::ptr::null_mut()), 0);
    }
    let (_turn, suspender) = turn();
    let target = parked();
    let mut session = suspender.session().unwrap();
    for _ in 0..20 {
        let release = session.suspend(target.id, PATIENT).unwrap().release();
        assert!(matches!(release, Release::Whole { .. }));
    }
    drop(session);
    assert_eq!(CALLS.load(Ordering::SeqCst), 0, "stopping a thread is no business of the program's");
    // SAFETY: a signal with a handler, to this thread.
    assert_eq!(unsafe { libc::raise(libc::SIGURG) }, 0);
    assert_eq!(CALLS.load(Ordering::SeqCst), 1);
}
