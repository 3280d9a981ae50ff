//! Threads that are stopped by Mach.
#![cfg(target_os = "macos")]

mod common;

use common::{PATIENT, is_in, parked, spin_inner, spinning, turn};
use freezeframe_unwind::images::{ImageKind, ImageTable};
use freezeframe_unwind::suspend::{Release, SuspendError};
use freezeframe_unwind::threads::{ThreadId, current, list};
use std::sync::atomic::Ordering;
use std::time::Duration;

#[test]
fn a_stopped_thread_stands_still_where_its_registers_say_and_goes_on_when_it_is_let_go() {
    let (_turn, suspender) = turn();
    let target = spinning();
    let mut session = suspender.session().unwrap();
    // Until it is stopped in its own loop, not in the little that it calls.
    let found = (0..1000).any(|_| {
        let held = session.suspend(target.id, PATIENT).unwrap();
        let before = target.turns.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(target.turns.load(Ordering::Relaxed), before, "it stands still");
        let here = is_in(held.registers().pc(), spin_inner as *const () as usize);
        assert!(matches!(held.release(), Release::Whole { held_ns: 1_000_000.. }));
        here
    });
    assert!(found);
    drop(session.suspend(target.id, PATIENT).unwrap());
    let before = target.turns.load(Ordering::Relaxed);
    while target.turns.load(Ordering::Relaxed) == before {
        std::thread::yield_now();
    }
}

#[test]
fn there_is_one_session_at_a_time_and_its_thread_is_never_stopped() {
    let (_turn, suspender) = turn();
    let target = parked();
    let mut session = suspender.session().unwrap();
    assert_eq!(session.suspend(current(), PATIENT).unwrap_err(), SuspendError::Itself);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| suspender.session().map(drop).unwrap_err());
        assert_eq!(other.join().unwrap(), SuspendError::Busy);
    });
    drop(session);
    // One whose thread has ended without giving it back is taken over.
    std::thread::spawn(move || std::mem::forget(suspender.session().unwrap())).join().unwrap();
    let mut taken_over = suspender.session().unwrap();
    assert!(taken_over.suspend(target.id, PATIENT).is_ok());
}

#[test]
fn a_thread_that_has_ended_is_gone() {
    let (_turn, suspender) = turn();
    let ended = std::thread::spawn(current).join().unwrap();
    let mut session = suspender.session().unwrap();
    // Joining does not wait for the kernel to forget the thread.
    let gone = (0..5000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        session.suspend(ended, PATIENT).is_err_and(|error| error == SuspendError::Gone)
    });
    assert!(gone);
    assert_eq!(session.suspend(ThreadId(0), PATIENT).unwrap_err(), SuspendError::Gone);
}

#[test]
fn listing_threads_leaves_no_port_right_behind() {
    let mut ids = [ThreadId(0); 64];
    let me = current();
    let refs = || {
        let mut refs = 0;
        // SAFETY: asks for the send rights that this task has to its own thread.
        let result = unsafe {
            const MACH_PORT_RIGHT_SEND: u32 = 0;
            mach_port_get_refs(mach2::traps::mach_task_self(), me.0 as u32, MACH_PORT_RIGHT_SEND, &mut refs)
        };
        assert_eq!(result, 0);
        refs
    };
    let before = refs();
    (0..100).for_each(|_| assert!(list(&mut ids).unwrap() >= 1 && current() == me));
    assert_eq!(refs(), before);
}

unsafe extern "C" {
    fn mach_port_get_refs(task: u32, name: u32, right: u32, refs: *mut u32) -> i32;
}

#[test]
fn this_program_its_libraries_and_dyld_are_images_by_callback_and_by_list_alike() {
    let mut by_list = Box::new(ImageTable::new());
    by_list.refresh().unwrap();
    let (_turn, _suspender) = turn();
    let mut by_callback = Box::new(ImageTable::new());
    by_callback.refresh().unwrap();
    for table in [&by_list, &by_callback] {
        let here = listing_threads_leaves_no_port_right_behind as *const () as u64;
        let (_, program) = table.find(here).unwrap();
        assert_eq!(program.kind, ImageKind::MachO);
        let path = String::from_utf8_lossy(table.path(program)).into_owned();
        assert_eq!(std::fs::canonicalize(path).unwrap(), std::env::current_exe().unwrap());
        assert_eq!(table.build_id(program).len(), 16);
        assert!(table.is_code(here) && !program.in_shared_cache);
        let (_, library) = table.find(libc::getpid as *const () as u64).unwrap();
        assert!(library.in_shared_cache && !library.unwind_info.start.eq(&0));
        assert!(table.images().iter().any(|image| table.path(image) == b"/usr/lib/dyld"));
    }
    assert_eq!(by_list.images().len(), by_callback.images().len());
}
