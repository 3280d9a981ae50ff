//! Crashes of real processes: each leaves a report, and ends as it would have without.
#![cfg(target_os = "linux")]

mod harness;
mod program;
mod tripwire;

use freezeframe_report::read::{HeldHow, Record, RecordKind, RecordOutcome, Report, Thread};
use harness::{
    FILE, Folder, NULL_WRITE, WAY, assert_complete, assert_on_stack, crash, emulated, end, names, records,
    run, says, start, thread,
};
use program::{GARBAGE, MANY};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Instant;

/// No test of its own: the program that the children of the others run, on a thread of the standard library's.
#[test]
fn the_program_that_crashes() {
    if let (Ok(way), Some(file)) = (std::env::var(WAY), std::env::var_os(FILE)) {
        program::run(&way, Path::new(&file));
    }
}

/// The same on the main thread, which runs no tests: before `main`, so that it is as bare as a C program's.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn before_main() {
        if let (Ok(way), Some(file)) = (std::env::var(WAY), std::env::var_os(FILE))
            && let Some(way) = way.strip_prefix(ON_MAIN_THREAD)
        {
            program::run(way, Path::new(&file));
        }
    }
    before_main
};

const ON_MAIN_THREAD: &str = "main thread: ";

#[test]
fn a_write_to_null_is_reported_from_where_it_happened_and_the_process_dies_of_it() {
    for on_main in [true, false] {
        let folder = Folder::new();
        let way = if on_main { "main thread: null" } else { "null" };
        assert_eq!(run(&folder, way).signal(), Some(libc::SIGSEGV));
        let record = crash(&folder);
        assert_eq!(says(&record), NULL_WRITE);
        assert_complete(&record, "writes_to_null");
        assert_eq!(record.slot, 0, "the slot that is kept for a crash");
        let thread = &record.threads[0];
        assert_eq!((thread.main, thread.stop.code), (on_main, 1), "{:?}", thread.stop);
        let innermost = &thread.frames[0];
        assert_eq!((innermost.origin, innermost.trust), ("instruction", "context"));
        assert!(
            innermost.symbol.as_ref().unwrap().name.contains("writes_to_null"),
            "no frame of the handler's"
        );
    }
}

/// What all these tests rely on: a handler that allocates would end its process in another way.
#[test]
fn an_allocation_of_a_thread_that_crashes_would_be_noticed() {
    assert_eq!(run(&Folder::new(), "allocates").code(), Some(99));
}

#[test]
fn it_ends_as_it_would_without_a_reporter() {
    let folder = Folder::new();
    let without = run(&folder, "without a reporter");
    assert!(!folder.file().exists());
    assert_eq!(run(&folder, "null"), without);
}

/// The innermost and the outermost frames of an endless recursion, and how often it went round.
#[track_caller]
fn assert_recursion(record: &Record, stack: usize) {
    assert_eq!(says(record).0, "SIGSEGV");
    assert_complete(record, "recurses_endlessly");
    let thread = &record.threads[0];
    let repeat = thread.repeat.expect("a recursion repeats");
    assert_eq!((repeat.period, thread.omitted_after as usize), (1, 192), "{repeat:?}");
    // Every call has an array of 64 bytes, and two words at least.
    let sps: Vec<u64> = thread.frames[20..30].iter().map(|frame| frame.sp).collect();
    let bytes = sps[1] - sps[0];
    assert!(bytes >= 80 && sps.windows(2).all(|pair| pair[1] - pair[0] == bytes), "{sps:x?}");
    let most = stack as u64 / bytes;
    assert!((most * 8 / 10..=most).contains(&repeat.times), "{repeat:?}, {most} have room");
    let total = thread.frames.len() as u64 + thread.omitted;
    assert!(total >= repeat.times && total < repeat.times + 100, "{total} {repeat:?}");
    let outermost = thread.frames.last().unwrap().symbol.as_ref().map_or("", |symbol| &symbol.name);
    assert!(!outermost.contains("recurses_endlessly"), "{outermost}");
    let recursive = names(thread).iter().filter(|name| name.contains("recurses_endlessly")).count();
    assert!((200..256).contains(&recursive), "{recursive} of the frames that are kept");
}

#[test]
fn a_stack_overflow_of_the_main_thread_shows_both_ends_of_the_recursion() {
    let folder = Folder::new();
    let status = run(&folder, "main thread: overflow without std's handler");
    assert_eq!(status.signal(), Some(libc::SIGSEGV));
    // The usual limit; whatever it is, it is not less.
    let record = crash(&folder);
    assert!(record.threads[0].main);
    assert_recursion(&record, 8 << 20);
}

#[test]
fn a_stack_overflow_of_a_rust_thread_is_reported_before_rust_says_its_own() {
    let folder = Folder::new();
    // The standard library's handler, which was there before, says what has happened and aborts.
    assert_eq!(run(&folder, "overflow of std's thread").signal(), Some(libc::SIGABRT));
    let record = crash(&folder);
    assert_eq!(record.threads[0].name, "overflows");
    assert_recursion(&record, program::SMALL_STACK);
}

#[test]
fn a_stack_overflow_of_a_protected_thread_of_another_language_is_reported() {
    let folder = Folder::new();
    assert_eq!(run(&folder, "overflow of C's thread").signal(), Some(libc::SIGSEGV));
    let record = crash(&folder);
    assert_on_stack(&record.threads[0], "overflows_protected");
    assert_recursion(&record, program::SMALL_STACK);
}

#[test]
fn a_thread_without_an_alternate_stack_is_reported_from_its_own() {
    let folder = Folder::new();
    assert_eq!(run(&folder, "C's thread").signal(), Some(libc::SIGSEGV));
    let record = crash(&folder);
    assert_eq!(says(&record), NULL_WRITE);
    assert_complete(&record, "crashes_in_c_thread");
}

#[test]
fn an_abort_is_reported_with_who_has_called_it() {
    let folder = Folder::new();
    let mut child = start(&folder, "abort");
    assert_eq!(end(&mut child).signal(), Some(libc::SIGABRT));
    let record = crash(&folder);
    assert_eq!(says(&record), ("SIGABRT", "SI_TKILL", None));
    let process = record.process.as_ref().unwrap();
    assert_eq!(record.crash.as_ref().unwrap().sender.map(|sender| sender.pid), Some(process.pid));
    assert_complete(&record, "aborts");
}

#[test]
fn a_corrupted_heap_is_reported_with_the_allocators_lock_held() {
    let folder = Folder::new();
    assert_eq!(run(&folder, "corrupted heap").signal(), Some(libc::SIGABRT));
    let record = crash(&folder);
    assert_eq!(says(&record), ("SIGABRT", "SI_TKILL", None));
    assert_complete(&record, "corrupts_the_heap");
}

#[test]
fn an_abort_is_reported_while_another_thread_holds_the_allocators_lock() {
    if emulated() {
        println!("not tested: qemu-user says its own where nobody reads");
        return;
    }
    let folder = Folder::new();
    assert_eq!(run(&folder, "allocator's lock").signal(), Some(libc::SIGABRT));
    let record = crash(&folder);
    assert_complete(&record, "aborts");
    if cfg!(target_env = "gnu") {
        let holds = record.threads.iter().filter(|thread| names(thread).contains(&"malloc_stats")).count();
        assert_eq!(holds, 1, "it prints, with the lock held");
    }
}

#[test]
fn a_corrupted_frame_ends_the_walk_with_a_reason_behind_what_is_sure() {
    let folder = Folder::new();
    assert_eq!(run(&folder, "corrupted stack").signal(), Some(libc::SIGSEGV));
    let record = crash(&folder);
    assert_complete(&record, "corrupts_its_own_frame");
    let thread = &record.threads[0];
    assert_eq!((thread.frames.len(), names(thread).len()), (2, 2), "{:?}", names(thread));
    assert_eq!((thread.stop.code, thread.stop.address), (7, GARBAGE as u64), "{:?}", thread.stop);
}

#[test]
fn a_corrupted_stack_pointer_leaves_the_function_and_a_reason() {
    let folder = Folder::new();
    assert_eq!(run(&folder, "corrupted stack pointer").signal(), Some(libc::SIGSEGV));
    let record = crash(&folder);
    assert_on_stack(thread(&record, "companion"), "companion_waits");
    let thread = &record.threads[0];
    assert!(names(thread)[0].contains("loses_its_stack") && thread.registers.len() > 17);
    assert!(thread.frames.len() == 1 || thread.frames[1].sp > thread.frames[0].sp, "nothing is made up");
    assert!(thread.stop.code != 0, "{:?}", thread.stop);
}

#[test]
fn a_jump_to_where_no_code_is_has_its_caller() {
    for (way, code) in [("jump to null", "SEGV_MAPERR"), ("jump to data", "SEGV_ACCERR")] {
        if emulated() && way == "jump to data" {
            println!("not tested: qemu-user executes data");
            continue;
        }
        let folder = Folder::new();
        assert_eq!(run(&folder, way).signal(), Some(libc::SIGSEGV));
        let record = crash(&folder);
        let thread = &record.threads[0];
        let target = thread.frames[0].address;
        assert_eq!(says(&record), ("SIGSEGV", code, Some(target)));
        assert_eq!(target == 0, way == "jump to null");
        assert_complete(&record, "jumps_to");
        let caller = thread.frames[1].symbol.as_ref().unwrap();
        assert!(caller.name.contains("jumps_to") && thread.stop.code == 1, "{caller:?} {:?}", thread.stop);
    }
}

#[test]
fn a_crash_in_a_freezes_callback_is_reported_beside_the_freeze() {
    let folder = Folder::new();
    assert_eq!(run(&folder, "freeze's callback").signal(), Some(libc::SIGSEGV));
    let record = crash(&folder);
    assert_complete(&record, "writes_to_null");
    assert_eq!(record.threads[0].name, "freezeframe-hks");
    let records = records(&folder);
    let freeze = records.iter().find(|record| record.kind == RecordKind::Freeze).expect("both are there");
    assert_eq!(freeze.outcome, RecordOutcome::Killed, "the process has ended in the middle of it");
    assert!(freeze.slot > 1);
    let froze = freeze.threads[0].id;
    let frozen = record.threads.iter().find(|thread| thread.id == froze).unwrap();
    assert_on_stack(frozen, "freezes");
}

#[test]
fn where_no_descriptor_is_left_a_freeze_and_a_crash_are_reported_with_all_threads() {
    if emulated() {
        println!("not tested: an emulator needs a descriptor of its own to show where images are");
        return;
    }
    let folder = Folder::new();
    assert_eq!(run(&folder, "no descriptor is left").signal(), Some(libc::SIGSEGV));
    let crash = crash(&folder);
    assert_complete(&crash, "writes_to_null");
    let records = records(&folder);
    let freeze = records.iter().find(|record| record.kind == RecordKind::Freeze).expect("both are there");
    assert_on_stack(&freeze.threads[0], "freezes");
    for record in [&crash, freeze] {
        assert_on_stack(thread(record, "companion"), "companion_waits");
        assert_eq!(
            (record.set.why_not.as_deref(), record.dropped.map(|dropped| dropped.threads)),
            (None, Some(0))
        );
    }
}

#[test]
fn a_crash_among_hundreds_of_threads_that_run_takes_them_all_and_not_long() {
    if emulated() {
        // None can trace there.
        return;
    }
    let folder = Folder::new();
    let mut child = start(&folder, "many run");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.find(|line| line.as_ref().is_ok_and(|line| line.ends_with("crashes"))).unwrap().unwrap();
    let begun = Instant::now();
    assert_eq!(end(&mut child).signal(), Some(libc::SIGSEGV));
    let took = begun.elapsed();
    let record = crash(&folder);
    let running: Vec<_> = record.threads.iter().filter(|thread| thread.name == "runs").collect();
    let read = running.iter().filter(|thread| !thread.frames.is_empty()).count();
    let stacks = record.times.capture_ended_ns - record.times.capture_started_ns;
    let set = (&record.set.how, record.set.ns);
    println!("{read} of {} in {} ms, {took:?} in all, {set:?}", running.len(), stacks / 1_000_000);
    assert_eq!((running.len(), read), (MANY, MANY));
    assert!(stacks < 30_000_000_000, "they were not waited for one after the other");
}

#[test]
fn a_crash_in_a_capture_is_reported_with_the_thread_that_was_held() {
    let folder = Folder::new();
    assert_eq!(run(&folder, "in a capture").signal(), Some(libc::SIGSEGV));
    let record = crash(&folder);
    assert_complete(&record, "crashes_in_a_capture");
}

#[test]
fn a_crash_while_another_thread_captures_waits_for_that_but_not_for_ever() {
    let folder = Folder::new();
    assert_eq!(run(&folder, "while captured").signal(), Some(libc::SIGSEGV));
    let record = crash(&folder);
    if emulated() {
        // There a capture can take longer than it is waited for.
        assert_on_stack(&record.threads[0], "crashes_while_another_captures");
    } else {
        assert_complete(&record, "crashes_while_another_captures");
        // Wherever it has come to since.
        let capturer = thread(&record, "capturer");
        let whole = !capturer.frames.is_empty() && capturer.stop.code == 1;
        assert!(whole, "{:?} {:?}", capturer.held, capturer.stop);
    }

    let folder = Folder::new();
    assert_eq!(run(&folder, "while captured for long").signal(), Some(libc::SIGSEGV));
    let record = crash(&folder);
    assert_on_stack(&record.threads[0], "crashes_while_another_captures");
    let companion = thread(&record, "companion");
    if emulated() {
        let why_not = companion.held.why_not.as_deref();
        assert_eq!((companion.held.how, why_not), (HeldHow::Not, Some("another capture is going on")));
    } else {
        // It stands still for the other one: that is as good as a wait of its own.
        assert_eq!(companion.held.how, HeldHow::Peek);
        assert_on_stack(companion, "companion_waits");
    }
    let took = record.times.capture_ended_ns - record.times.capture_started_ns;
    assert!(took < 10_000_000_000, "{took} ns");
}

#[test]
fn two_threads_that_crash_at_once_are_in_one_report() {
    let mut waited = 0;
    for _ in 0..20 {
        let folder = Folder::new();
        assert_eq!(run(&folder, "two at once").signal(), Some(libc::SIGSEGV));
        let record = crash(&folder);
        assert_eq!(says(&record), NULL_WRITE);
        assert_complete(&record, "two_crash_at_once");
        let on_stack = |function: &str| -> Vec<&Thread> {
            let of = |thread: &&Thread| names(thread).iter().any(|name| name.ends_with(function));
            record.threads.iter().filter(of).collect()
        };
        let waits = on_stack("::wait_for_the_end");
        waited += waits.len();
        // Where signal handlers return to is no memory of an emulated process.
        if !emulated() || waits.is_empty() {
            let all: Vec<_> = record.threads.iter().map(|thread| (names(thread), &thread.stop)).collect();
            for function in ["two_crash_at_once::one", "two_crash_at_once::other"] {
                assert_eq!(on_stack(function).len(), 1, "{function}: {all:#?}");
            }
            waits.iter().for_each(|thread| assert_on_stack(thread, "writes_to_null"));
        }
        if waited > 2 {
            return;
        }
    }
    assert!(waited > 0, "in one of these runs the second was in the handler when the first took its stack");
}

#[test]
fn an_earlier_handler_is_told_what_the_signal_said_and_decides() {
    for (way, function) in
        [("earlier handler", "writes_to_null"), ("main thread: earlier handler of abort", "aborts")]
    {
        let folder = Folder::new();
        assert_eq!(run(&folder, way).code(), Some(42));
        let record = crash(&folder);
        assert_complete(&record, function);
    }
}

#[test]
fn a_signal_from_another_process_says_who_has_sent_it() {
    let folder = Folder::new();
    let mut child = start(&folder, "main thread: waits for a kill");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().contains("ready")).unwrap().unwrap();
    // SAFETY: a child of ours that has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGSEGV) };
    assert_eq!(end(&mut child).signal(), Some(libc::SIGSEGV));
    let record = crash(&folder);
    assert_eq!(says(&record), ("SIGSEGV", "SI_USER", None));
    assert_eq!(record.crash.as_ref().unwrap().sender.map(|sender| sender.pid), Some(std::process::id()));
    assert_complete(&record, "waits_to_be_killed");
}

#[test]
fn every_kind_of_fault_is_reported_by_its_name() {
    let ways = [
        ("trap", libc::SIGTRAP, "SIGTRAP", "traps"),
        ("illegal instruction", libc::SIGILL, "SIGILL", "executes_no_instruction"),
        ("bus", libc::SIGBUS, "SIGBUS", "reads_behind_the_end_of_a_file"),
    ];
    for (way, signal, name, function) in ways {
        let folder = Folder::new();
        assert_eq!(run(&folder, way).signal(), Some(signal));
        let record = crash(&folder);
        assert_eq!(says(&record).0, name);
        assert_complete(&record, function);
        if way == "bus" {
            assert_eq!(says(&record).1, "BUS_ADRERR");
        }
    }
}

#[test]
fn a_forbidden_system_call_is_reported() {
    if emulated() {
        println!("not tested: qemu-user has no seccomp");
        return;
    }
    let folder = Folder::new();
    assert_eq!(run(&folder, "forbidden call").signal(), Some(libc::SIGSYS));
    let record = crash(&folder);
    let (name, code, address) = says(&record);
    assert_eq!((name, code), ("SIGSYS", "SYS_SECCOMP"));
    assert_eq!(address, Some(record.threads[0].frames[0].address));
    assert_complete(&record, "makes_a_forbidden_call");
}

#[test]
fn a_forked_child_that_crashes_dies_of_it_and_leaves_the_parents_file_alone() {
    let folder = Folder::new();
    assert_eq!(run(&folder, "forked child").code(), Some(libc::SIGSEGV));
    assert!(records(&folder).is_empty());
}

#[test]
fn a_second_crash_does_not_cost_the_first_that_nobody_has_read() {
    let folder = Folder::new();
    assert_eq!(run(&folder, "null").signal(), Some(libc::SIGSEGV));
    assert_eq!(run(&folder, "abort").signal(), Some(libc::SIGABRT));
    let records = records(&folder);
    assert_eq!(
        records.iter().map(|record| (says(record).0, record.slot)).collect::<Vec<_>>(),
        [("SIGSEGV", 0), ("SIGABRT", 2)]
    );
    let taken = Report::take(&folder.file()).unwrap();
    assert_eq!(taken.records.len(), 2);
    assert_eq!(run(&folder, "null").signal(), Some(libc::SIGSEGV));
    assert_eq!(crash(&folder).slot, 0);
}

#[test]
fn a_file_that_cannot_be_written_to_any_more_changes_nothing_of_how_the_process_dies() {
    let folder = Folder::new();
    assert_eq!(run(&folder, "file cut off").signal(), Some(libc::SIGABRT));
    // A crash in the handler: it gives up.
    for way in ["file too large", "writing is a crash"] {
        // It has no such filters.
        if emulated() && way == "writing is a crash" {
            continue;
        }
        let folder = Folder::new();
        assert_eq!(run(&folder, way).signal(), Some(libc::SIGABRT), "{way}");
        assert!(records(&folder).is_empty());
    }
}
