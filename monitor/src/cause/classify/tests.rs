//! The table of causes: what is seen, and what it is called.

use super::super::functions::known;
use super::super::{arguments, calls};
use super::*;
use freezeframe_arch::Architecture;
use freezeframe_unwind::memory::SliceMemory;
use freezeframe_unwind::threads::ThreadId;

const QUIET: Seen<'static> = Seen {
    window_ns: 50_000_000,
    cpu_ns: 10_000,
    overall_percent: 0,
    run_queue_ns: Some(0),
    late_ticks: 0,
    state: RunState::Sleeping,
    call: None,
    wait: None,
    lock: None,
    at_own_word: false,
    descriptor: None,
    loop_waits: None,
    functions: &[],
};

fn call(number: u32, arguments: [u64; 3]) -> Option<SystemCall> {
    let [a, b, c] = arguments;
    Some(SystemCall { number, arguments: [a, b, c, 0, 0, 0] })
}

fn cause(seen: Seen<'_>) -> Cause {
    classify(&seen).cause
}

/// In that call, of x86_64's.
fn in_call(number: u32, arguments: [u64; 3]) -> Seen<'static> {
    in_call_of(Architecture::X86_64, number, arguments)
}

fn in_call_of(architecture: Architecture, number: u32, arguments: [u64; 3]) -> Seen<'static> {
    let call = call(number, arguments);
    let wait = calls::find(architecture, number).and_then(|(name, wait)| {
        let memory = &mut SliceMemory::new(0, &[]);
        Some((name, arguments::refine(&call?, (name, wait), memory, |_| false)?))
    });
    Seen { call, wait, ..QUIET }
}

fn called(number: u32, arguments: [u64; 3], functions: &[(u32, Known)]) -> Cause {
    cause(Seen { functions, ..in_call(number, arguments) })
}

fn function(name: &str) -> [(u32, Known); 1] {
    [(1, known(name.as_bytes()).unwrap())]
}

const FUTEX: u32 = 202;
const WAIT: u64 = 0x80;

#[test]
fn a_thread_on_a_processor_computes_also_where_it_has_to_share_it() {
    let running = Seen { state: RunState::Running, ..QUIET };
    assert_eq!(cause(Seen { cpu_ns: 49_000_000, ..running }), Cause::CpuBound);
    assert_eq!(cause(Seen { cpu_ns: 8_000_000, run_queue_ns: Some(40_000_000), ..running }), Cause::CpuBound);
    assert_eq!(cause(Seen { cpu_ns: 15_000_000, run_queue_ns: None, ..running }), Cause::CpuBound);
    let little = Seen { cpu_ns: 100_000, run_queue_ns: Some(49_000_000), ..running };
    assert_eq!(cause(Seen { overall_percent: 8, ..little }), Cause::CpuBound, "in this look it had bad luck");
    assert_eq!(cause(Seen { overall_percent: 2, ..little }), Cause::Starved);
    let finding = classify(&Seen { cpu_ns: 49_000_000, ..running });
    let evidence = finding.evidence();
    assert_eq!(
        (evidence[0].kind, evidence[0].a, evidence[0].b),
        (EvidenceKind::CpuShare, 49_000_000, 50_000_000)
    );
}

#[test]
fn a_thread_that_gets_no_processor_is_starved() {
    let running = Seen { state: RunState::Running, cpu_ns: 1_000_000, ..QUIET };
    assert_eq!(cause(Seen { run_queue_ns: Some(48_000_000), ..running }), Cause::Starved);
    assert_eq!(cause(Seen { run_queue_ns: None, late_ticks: 2, ..running }), Cause::Starved);
    assert_eq!(cause(Seen { run_queue_ns: None, ..running }), Cause::Unknown, "nothing speaks for it");
    let finding = classify(&Seen { run_queue_ns: Some(48_000_000), late_ticks: 3, ..running });
    let kinds: Vec<_> = finding.evidence().iter().map(|evidence| evidence.kind).collect();
    assert_eq!(kinds, [EvidenceKind::RunQueue, EvidenceKind::CpuShare, EvidenceKind::LateTicks]);
}

#[test]
fn a_futex_is_a_lock_or_another_thread_by_its_functions_and_else_by_its_value() {
    assert_eq!(called(FUTEX, [0x1000, WAIT, 2], &[]), Cause::Lock);
    assert_eq!(called(FUTEX, [0x1000, WAIT, 0xffff_ffff], &[]), Cause::Peer, "a parked thread");
    assert_eq!(
        called(FUTEX, [0x1000, WAIT, 0x7fff_ffff], &[]),
        Cause::Lock,
        "a lock for readers and writers"
    );
    assert_eq!(called(FUTEX, [0x1000, WAIT, 17], &[]), Cause::Peer);
    assert_eq!(called(FUTEX, [0x1000, 6 | WAIT, 0], &[]), Cause::Lock, "priority inheritance");
    assert_eq!(called(FUTEX, [0x1000, WAIT, 17], &function("___pthread_rwlock_rdlock")), Cause::Lock);
    assert_eq!(called(FUTEX, [0x1000, WAIT, 2], &function("pthread_cond_wait")), Cause::Peer);
    let finding = classify(&in_call(FUTEX, [0x1000, WAIT, 2]));
    let word = finding.evidence().iter().find(|evidence| evidence.kind == EvidenceKind::Word).unwrap();
    assert_eq!((word.a, word.b), (0x1000, 2));
}

#[test]
fn system_calls_say_what_they_wait_for() {
    for (number, expected) in [
        (230, Cause::Sleeping),
        (61, Cause::Child),
        (247, Cause::Child),
        (74, Cause::Io),
        (257, Cause::Io),
        (47, Cause::Peer),
        (42, Cause::Peer),
        (0, Cause::Io),
    ] {
        assert_eq!(called(number, [3, 0, 0], &[]), expected, "{number}");
    }
    let read = |descriptor| cause(Seen { descriptor: Some(descriptor), ..in_call(0, [3, 0, 0]) });
    assert_eq!((read(Descriptor::Pipe), read(Descriptor::Socket)), (Cause::Io, Cause::Peer));
    assert_eq!(
        cause(in_call_of(Architecture::Arm64, 115, [0; 3])),
        Cause::Sleeping,
        "by the architecture's own numbers"
    );
}

#[test]
fn a_wait_for_events_is_idle_only_where_a_loop_makes_it() {
    assert_eq!(called(7, [0x1000, 1, 5000], &[]), Cause::Peer, "a poll in a callback");
    assert_eq!(called(7, [0x1000, 1, 5000], &function("g_main_context_iteration")), Cause::Idle);
    assert_eq!(called(232, [5, 0, 10], &function("uv__io_poll")), Cause::Idle);
    let timeout = |milliseconds: i32| {
        let finding = classify(&in_call(7, [0x1000, 1, milliseconds as u32 as u64]));
        let found = finding.evidence().iter().find(|evidence| evidence.kind == EvidenceKind::Timeout);
        found.map(|evidence| evidence.a)
    };
    assert_eq!((timeout(5000), timeout(-1)), (Some(5_000_000_000), None));
    assert_eq!(cause(Seen { loop_waits: Some(true), ..in_call(FUTEX, [1, WAIT, 2]) }), Cause::Idle);
}

#[test]
fn a_loop_that_says_that_it_does_not_wait_is_believed_whatever_the_frames_say() {
    let functions = function("g_main_context_iteration");
    let seen = Seen { functions: &functions, ..in_call(7, [0x1000, 1, 5000]) };
    assert_eq!(cause(seen), Cause::Idle, "nobody says so");
    assert_eq!(cause(Seen { loop_waits: Some(false), ..seen }), Cause::Peer);
    let untold = Seen { functions: &functions, ..QUIET };
    assert_eq!(cause(Seen { loop_waits: Some(false), ..untold }), Cause::Peer, "without a call either");
    assert_eq!(cause(Seen { loop_waits: Some(true), ..untold }), Cause::Idle);
}

#[test]
fn a_wait_for_what_a_child_writes_is_one_for_the_child() {
    let functions = [(1, known(b"g_spawn_sync").unwrap()), (4, known(b"g_main_loop_run").unwrap())];
    assert_eq!(called(7, [0x1000, 2, 0xffff_ffff], &functions), Cause::Child);
}

#[test]
fn a_call_that_is_not_in_the_table_is_no_wait_for_events() {
    let loops = function("g_main_loop_run");
    let seen = Seen { functions: &loops, ..in_call(999, [3, 0, 0]) };
    let finding = classify(&seen);
    assert_eq!(finding.cause, Cause::Unknown);
    let call = finding.evidence().iter().find(|evidence| evidence.kind == EvidenceKind::SystemCall);
    assert_eq!(call.map(|call| (call.a, call.b)), Some((999, 3)));
    assert_eq!(called(999, [3, 0, 0], &function("recvmsg")), Cause::Peer, "functions may tell all the same");
}

#[test]
fn a_lock_that_says_whose_it_is_is_a_lock_whatever_the_functions_say() {
    let lock = |kind, owner| Some(LockWait { kind, address: 0x1000, owner });
    let with =
        |lock, value, functions| classify(&Seen { lock, functions, ..in_call(FUTEX, [0x1000, WAIT, value]) });
    let held = lock(LockKind::ReadWrite, Owner::Thread(ThreadId(7)));
    let finding = with(held, 3, &[]);
    assert_eq!(finding.cause, Cause::Lock, "no function, and no value that tells");
    let told = finding.evidence().iter().find(|evidence| evidence.kind == EvidenceKind::Lock).unwrap();
    assert_eq!((told.a, told.b, told.text), (0x1000, 7, &b"read-write lock"[..]));
    let waits = function("pthread_cond_wait");
    assert_eq!(with(held, 3, &waits).cause, Cause::Lock, "it takes the mutex again");
    assert_eq!(with(lock(LockKind::Mutex, Owner::Ended(ThreadId(7))), 2, &[]).cause, Cause::Lock);
    assert_eq!(with(lock(LockKind::RustReadWrite, Owner::Unknown), 0, &[]).cause, Cause::Lock, "its shape");
    assert_eq!(
        with(lock(LockKind::Other, Owner::Unknown), 2, &waits).cause,
        Cause::Peer,
        "functions know better"
    );
    let join = lock(LockKind::ThreadEnd, Owner::Thread(ThreadId(7)));
    assert_eq!(with(join, 7, &[]).cause, Cause::Peer, "a thread's end is no lock");
}

#[test]
fn a_time_is_set_by_who_waits_for_a_condition_and_by_no_mutex_of_rusts() {
    let timed = |operation, timeout| {
        let call = SystemCall { number: FUTEX, arguments: [0x1000, operation, 2, timeout, 0, 0xffff_ffff] };
        cause(Seen { call: Some(call), ..in_call(FUTEX, [0; 3]) })
    };
    assert_eq!((timed(0x89, 0), timed(0x89, 0x7000)), (Cause::Lock, Cause::Peer));
    assert_eq!(timed(0x80, 0x7000), Cause::Lock, "the other command");
}

#[test]
fn who_waits_for_a_word_of_the_c_librarys_own_was_refused_a_lock() {
    let own = |operation, value| Seen { at_own_word: true, ..in_call(FUTEX, [0x1000, operation, value]) };
    let finding = classify(&own(0x189, 0));
    assert_eq!(finding.cause, Cause::Lock);
    assert!(finding.evidence().iter().any(|evidence| evidence.kind == EvidenceKind::Note));
    assert_eq!(cause(own(0x189, 3)), Cause::Peer, "a counter");
    assert_eq!(cause(own(0x80, 0)), Cause::Peer, "the other command");
    assert_eq!(called(FUTEX, [0x1000, 0x189, 0], &[]), Cause::Peer, "somebody else's word: a semaphore's");
}

#[test]
fn a_files_lock_is_a_lock() {
    for (number, arguments) in [(73, [16, 2, 0]), (72, [16, 7, 0])] {
        let finding = classify(&in_call(number, arguments));
        assert_eq!(finding.cause, Cause::Lock);
        let file = finding.evidence().iter().find(|evidence| evidence.kind == EvidenceKind::Descriptor);
        assert_eq!(file.unwrap().a, 16);
    }
}

#[test]
fn where_the_system_does_not_tell_of_calls_functions_do() {
    for (name, expected) in [
        ("__psynch_mutexwait", Cause::Lock),
        ("__ulock_wait", Cause::Lock),
        ("__psynch_cvwait", Cause::Peer),
        ("__semwait_signal", Cause::Sleeping),
        ("__wait4", Cause::Child),
        ("read", Cause::Io),
        ("__CFRunLoopServiceMachPort", Cause::Idle),
        ("mach_msg2_trap", Cause::Peer),
    ] {
        assert_eq!(cause(Seen { functions: &function(name), ..QUIET }), expected, "{name}");
    }
    let stack = |inner: &str, outer: &str| {
        let functions = [(0, known(inner.as_bytes()).unwrap()), (3, known(outer.as_bytes()).unwrap())];
        cause(Seen { functions: &functions, ..QUIET })
    };
    assert_eq!(stack("mach_msg2_trap", "__CFRunLoopServiceMachPort"), Cause::Idle);
    assert_eq!(stack("__ulock_wait", "CFRunLoopRunSpecific"), Cause::Lock, "the innermost function first");
    assert_eq!(stack("poll", "getaddrinfo"), Cause::Peer);
    assert_eq!(stack("poll", "g_spawn_sync"), Cause::Child);
    let running = Seen { state: RunState::Running, functions: &function("read"), ..QUIET };
    assert_ne!(cause(running), Cause::Io, "a thread that runs waits for nothing");
}

#[test]
fn a_wait_that_no_signal_ends_is_input_or_output() {
    assert_eq!(cause(Seen { state: RunState::Uninterruptible, ..QUIET }), Cause::Io);
    assert_eq!(cause(QUIET), Cause::Unknown);
}

#[test]
fn a_loop_that_runs_for_a_peers_answer_alone_is_not_idle() {
    const POLL: u32 = 7;
    let functions = |names: &[&str]| -> Vec<(u32, Known)> {
        (1..).zip(names.iter().map(|name| known(name.as_bytes()).unwrap())).collect()
    };
    let waits = functions(&["g_main_loop_run", "g_dbus_connection_send_message_with_reply_sync"]);
    assert_eq!(called(POLL, [4096, 1, 1000], &waits), Cause::Peer);
    let finding = classify(&Seen { call: call(POLL, [4096, 1, 1000]), functions: &waits, ..QUIET });
    let named = finding.evidence().iter().find(|evidence| evidence.kind == EvidenceKind::Function).unwrap();
    assert_eq!((named.a, named.text), (2, &b"g_dbus_connection_send_message_with_reply_sync"[..]));
    assert_eq!(called(POLL, [4096, 1, 1000], &functions(&["g_main_loop_run"])), Cause::Idle);
}
