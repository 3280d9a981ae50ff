//! Peeks at real threads, and at what kernels print.

extern crate std;
use super::super::ptrace::tests::quiet;
use super::*;
use crate::images::ImageTable;
use crate::memory::ProcessMemory;
use crate::process::ProcessId;
use crate::rule::StackBounds;
use crate::walk::{Frame, StopReason, Walk, WalkContext, Walker};
use freezeframe_arch::PacMask;
use std::boxed::Box;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use std::vec::Vec;

const PATIENCE: Duration = Duration::from_secs(20);

/// Where `/proc` tells of an emulator's registers there is nothing to see.
fn emulated() -> bool {
    let file = threads::open(ProcessId::Own, threads::current(), b"syscall").unwrap();
    let mut text = [0; CALL_BYTES];
    let read = file.read_from_start(&mut text).unwrap();
    let number = sys::decimal(&text[..read]);
    let emulated = number != Some(libc::SYS_pread64 as u64);
    if emulated {
        // Not captured, unlike what `eprintln` prints.
        writeln!(std::io::stderr(), "not tested: peeks, for /proc tells of an emulator's registers").unwrap();
    }
    emulated
}

#[inline(never)]
fn waits_here(ready: &mpsc::Sender<ThreadId>, end: &mpsc::Receiver<()>) {
    ready.send(threads::current()).unwrap();
    let _ = std::hint::black_box(end.recv());
}

fn begin(thread: ThreadId) -> Peek {
    let begun = Instant::now();
    loop {
        match Peek::begin(ProcessId::Own, thread, &mut ProcessMemory::new()) {
            Ok(peek) => return peek,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error:?}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_thread_that_waits_is_walked_to_its_end_without_being_stopped() {
    let _quiet = quiet();
    if emulated() {
        return;
    }
    let (ready, is_ready) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || waits_here(&ready, &ended));
    let id = is_ready.recv().unwrap();
    let peek = begin(id);
    let (registers, known) = peek.registers();
    let mut images = Box::new(ImageTable::new());
    images.refresh().unwrap();
    let mut context = Box::new(WalkContext::new());
    let bounds = StackBounds::above(registers.sp());
    let mut walker =
        Walker::new(&registers, bounds, PacMask::NONE, &images, ProcessMemory::new(), &mut context)
            .knowing(&registers, known);
    let mut frames = std::vec![Frame::EMPTY; 64];
    let (count, result) = walker.fill(&mut ProcessMemory::new(), &mut frames);
    if cfg!(target_arch = "x86_64") {
        assert_eq!(result, Err(StopReason::EndOfStack));
        assert!(!walker.lacked_register());
        let function = waits_here as *const () as u64;
        let addresses: Vec<u64> = frames[..count].iter().map(|frame| frame.address.lookup()).collect();
        assert!(addresses.iter().any(|pc| (function..function + 512).contains(pc)), "{addresses:x?}");
    }
    assert!(peek.still_waits(), "it was not touched");
    drop(end);
    thread.join().unwrap();
    assert!(!peek.still_waits(), "it has ended");
}

#[test]
fn a_thread_that_has_run_is_found_out_although_it_waits_at_the_same_place_again() {
    let _quiet = quiet();
    if emulated() {
        return;
    }
    let (ready, is_ready) = mpsc::channel();
    let stop = Arc::new(AtomicBool::new(false));
    let woken = Arc::new(AtomicU32::new(0));
    let (stopped, wakes) = (stop.clone(), woken.clone());
    let thread = std::thread::spawn(move || {
        ready.send(threads::current()).unwrap();
        while !stopped.load(Ordering::Relaxed) {
            std::thread::park();
            wakes.fetch_add(1, Ordering::Relaxed);
        }
    });
    let id = is_ready.recv().unwrap();
    let mut same_place = 0;
    for _ in 0..50 {
        let peek = begin(id);
        assert!(peek.still_waits() && peek.still_waits());
        let before = woken.load(Ordering::Relaxed);
        thread.thread().unpark();
        while woken.load(Ordering::Relaxed) == before {
            std::thread::yield_now();
        }
        let again = begin(id);
        assert!(again.found.times() != peek.found.times());
        assert!(!peek.still_waits());
        same_place += u32::from(again.registers == peek.registers);
    }
    assert!(same_place > 0, "the same stack pointer and program counter, and yet another moment");
    stop.store(true, Ordering::Relaxed);
    thread.thread().unpark();
    thread.join().unwrap();
}

#[test]
fn a_thread_that_runs_or_is_not_there_cannot_be_peeked_at() {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let (ready, is_ready) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        ready.send(threads::current()).unwrap();
        while !stopped.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    let id = is_ready.recv().unwrap();
    if !emulated() {
        let runs = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            matches!(Peek::begin(ProcessId::Own, id, &mut ProcessMemory::new()), Err(SuspendError::Running))
        });
        assert!(runs);
    }
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    let none = Peek::begin(ProcessId::Own, ThreadId(i32::MAX), &mut ProcessMemory::new());
    assert_eq!(none.err(), Some(SuspendError::Gone));
}

#[test]
fn what_kernels_print_is_read_or_refused() {
    let parse = |text: &str| Place::parse(text.as_bytes());
    let futex = std::format!("{} 0x1 0x80 0x2 0x0 0x0 0xffffffff 0x7ffc 0x7f00\n", libc::SYS_futex);
    let arguments = Some([1, 0x80, 2, 0, 0, 0xffff_ffff]);
    assert_eq!(parse(&futex), Ok(Place { arguments, futex: Some(1), sp: 0x7ffc, pc: 0x7f00 }));
    assert_eq!(
        parse("-1 0x7ffc 0x7f00\n"),
        Ok(Place { arguments: None, futex: None, sp: 0x7ffc, pc: 0x7f00 })
    );
    assert_eq!(parse("running\n"), Err(SuspendError::Running));
    // A kernel thread, a cut line, no line.
    for text in ["-1 0x0 0x0\n", "202 0x1 0x80 0x2 0x0 0x0 0xffffffff 0x7ffc\n", "202", "-1", "", "x 1 2"] {
        assert_eq!(parse(text), Err(SuspendError::Untold), "{text}");
    }
    assert!(
        counts_runs(b"1 2 3\n") && !counts_runs(b"0 0 0\n") && !counts_runs(b"1 2\n") && !counts_runs(b"")
    );
}

#[test]
fn arguments_are_registers_only_behind_the_instruction_that_takes_them_from_there() {
    let place = Place { arguments: Some([11, 12, 13, 14, 15, 16]), futex: None, sp: 0x7ffc, pc: 0x7f00 };
    let two = KnownRegisters::stack_and_program_counter(Architecture::NATIVE);
    assert_eq!(registers(place, Some(Call::Int80)).1, two);
    assert_eq!(registers(Place { arguments: None, ..place }, None).1, two);
    let (found, known) = registers(place, Some(Call::Syscall));
    if let Registers::X86_64(found) = found {
        let six = [found.rdi, found.rsi, found.rdx, found.r10, found.r8, found.r9];
        assert_eq!(Some(six), place.arguments);
        assert!([5, 4, 1, 10, 8, 9, 7, 16].iter().all(|number| known.contains(*number)));
        assert!(!known.contains(6) && !known.contains(2) && !known.contains(11));
    }
}
