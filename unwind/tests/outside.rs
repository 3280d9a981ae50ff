//! Processes captured from outside: waiting ones are looked at, running ones are stopped for a moment, and neither notices.
#![cfg(target_os = "linux")]

use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::memory::{Memory, ProcessMemory};
use freezeframe_unwind::process::ProcessId;
use freezeframe_unwind::snapshot::{Held, Options, Snapshot, ThreadCapture};
use freezeframe_unwind::threads::{RunState, ThreadId, facts_of};
use freezeframe_unwind::walk::StopReason;
use std::hint::black_box;

type Storage = (Box<ImageTable>, Box<Snapshot<16, 2048>>);

/// None where another process cannot be looked into: in an emulator.
fn storage() -> Option<Storage> {
    let child = Child::new(turns);
    let byte = 0u8;
    if ProcessMemory::of(child.id()).read(&raw const byte as u64, &mut [0]) == 0 {
        println!("not tested: an emulator does not look into other processes");
        return None;
    }
    let made = std::thread::Builder::new()
        .stack_size(16 << 20)
        .spawn(|| (Box::new(ImageTable::new()), Box::new(Snapshot::new())))
        .unwrap()
        .join();
    Some(made.unwrap())
}

/// A fork of this process, which has its images and runs one function, and is killed in the end.
struct Child(i32);

impl Child {
    fn new(body: fn() -> i32) -> Self {
        // SAFETY: the child calls functions that neither allocate nor lock, and `_exit`.
        match unsafe { libc::fork() } {
            0 => {
                let status = body();
                // SAFETY: ends the child.
                unsafe { libc::_exit(status) }
            }
            pid => Self(pid),
        }
    }

    const fn id(&self) -> ProcessId {
        ProcessId::Child(self.0)
    }

    fn status(&self) -> i32 {
        let mut status = 0;
        // SAFETY: waits for our own child.
        assert_eq!(unsafe { libc::waitpid(self.0, &mut status, 0) }, self.0);
        status
    }

    fn field(&self, name: &str) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap();
        status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: our own child, which may have been waited for: then there is none of that id.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

fn capture(child: &Child, (images, snapshot): &mut Storage) -> ThreadCapture {
    images.refresh_of(child.id()).unwrap();
    snapshot.capture_process(child.id(), images, &Options::default()).unwrap();
    snapshot.view().threads[0]
}

/// The starts of the functions that the first thread is in, innermost first.
fn functions(child: &Child, (images, snapshot): &mut Storage) -> Vec<u64> {
    let view = snapshot.view();
    let lookups: Vec<u64> =
        view.frames(&view.threads[0]).iter().map(|frame| frame.address.lookup()).collect();
    lookups.iter().filter_map(|lookup| snapshot.function_start_of(child.id(), images, *lookup)).collect()
}

#[inline(never)]
fn opens() -> i32 {
    black_box(reads()) + 1
}

#[inline(never)]
fn reads() -> i32 {
    black_box(sleeps()) + 1
}

#[inline(never)]
fn sleeps() -> i32 {
    let long = libc::timespec { tv_sec: 1000, tv_nsec: 0 };
    // SAFETY: only waits.
    black_box(unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &long, std::ptr::null_mut()) })
}

#[inline(never)]
fn computes() -> i32 {
    black_box(turns()) + 1
}

#[inline(never)]
fn turns() -> i32 {
    let mut number = 1u64;
    while black_box(number) != 0 {
        number = black_box(number.wrapping_mul(5) | 1);
    }
    0
}

#[test]
fn a_process_that_waits_is_looked_at_and_its_stack_is_whole() {
    let Some(mut storage) = storage() else { return };
    let child = Child::new(opens);
    let call = || facts_of(child.id(), ThreadId(child.0)).system_call.map(|call| i64::from(call.number));
    while call() != Some(libc::SYS_clock_nanosleep) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let thread = capture(&child, &mut storage);
    assert_eq!((thread.thread, thread.main), (ThreadId(child.0), true));
    if cfg!(target_arch = "x86_64") {
        assert_eq!(thread.held, Held::Peek);
    }
    assert_eq!(thread.summary.stop, StopReason::EndOfStack);
    assert_eq!(thread.facts.system_call.map(|call| i64::from(call.number)), Some(libc::SYS_clock_nanosleep));
    let functions = functions(&child, &mut storage);
    let wanted = [sleeps as *const (), reads as *const (), opens as *const ()].map(|f| f as u64);
    let at = functions.iter().position(|start| *start == wanted[0]).expect("the innermost is there");
    assert_eq!(functions[at..at + 3], wanted);
}

#[test]
fn a_process_that_computes_is_stopped_for_a_moment_and_runs_on_untraced() {
    let Some(mut storage) = storage() else { return };
    let child = Child::new(computes);
    let cpu_ns = || facts_of(child.id(), ThreadId(child.0)).cpu_ns;
    // It is past the beginning of its life.
    while cpu_ns() < 20_000_000 {
        std::thread::yield_now();
    }
    for _ in 0..50 {
        let thread = capture(&child, &mut storage);
        assert!(matches!(thread.held, Held::Ptrace { .. }), "{:?}", thread.held);
        assert_eq!(thread.summary.stop, StopReason::EndOfStack);
        let functions = functions(&child, &mut storage);
        let wanted = [turns as *const (), computes as *const ()].map(|f| f as u64);
        let at = functions.iter().position(|start| *start == wanted[0]).expect("the innermost is there");
        assert_eq!(functions[at..at + 2], wanted);
    }
    assert_eq!((child.field("TracerPid:"), child.field("State:")), ("0".into(), "R (running)".into()));
    let before = cpu_ns();
    while cpu_ns() < before + 10_000_000 {
        std::thread::yield_now();
    }
}

#[inline(never)]
fn computes_for_a_while() -> i32 {
    let mut number = 1u64;
    for _ in 0..30_000_000u64 {
        number = black_box(number.wrapping_mul(5) | 1);
    }
    7
}

#[test]
fn how_a_child_has_ended_is_left_to_its_parent_though_it_ends_while_it_is_captured() {
    let Some(mut storage) = storage() else { return };
    for _ in 0..3 {
        let child = Child::new(computes_for_a_while);
        let mut captured = 0;
        while facts_of(child.id(), ThreadId(child.0)).state != RunState::Dead {
            let thread = capture(&child, &mut storage);
            captured += u32::from(matches!(thread.held, Held::Ptrace { .. }));
        }
        assert!(captured > 0);
        assert_eq!(child.status(), 7 << 8);
    }
}

/// Waits for nothing in a call that the kernel does not begin anew, again and again, for as short a time as there is. The
/// exit status is how many of the waits have ended with an error.
fn waits_for_moments() -> i32 {
    // SAFETY: a descriptor of its own, and a buffer of one event.
    unsafe {
        let epoll = libc::epoll_create1(0);
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let mut interrupted = 0;
        for _ in 0..1500 {
            let mut number = 1u64;
            for _ in 0..20_000 {
                number = black_box(number.wrapping_mul(5) | 1);
            }
            if libc::epoll_wait(epoll, &mut event, 1, 1) < 0 {
                interrupted += 1;
            }
        }
        interrupted.min(100)
    }
}

#[test]
fn no_wait_ends_early_because_its_thread_was_stopped_when_it_began() {
    let Some(mut storage) = storage() else { return };
    let child = Child::new(waits_for_moments);
    let mut stopped = 0u32;
    while facts_of(child.id(), ThreadId(child.0)).state != RunState::Dead {
        let thread = capture(&child, &mut storage);
        stopped += u32::from(matches!(thread.held, Held::Ptrace { .. }));
    }
    println!("stopped {stopped} times");
    assert!(stopped > 0);
    if cfg!(target_arch = "x86_64") {
        assert_eq!(child.status(), 0);
    }
}
