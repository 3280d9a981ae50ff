//! The table of causes: what is seen, and what it is called.

use super::super::functions::known;
use super::*;

const QUIET: Seen<'static> = Seen {
    architecture: Architecture::X86_64,
    window_ns: 50_000_000,
    cpu_ns: 10_000,
    overall_percent: 0,
    run_queue_ns: Some(0),
    late_ticks: 0,
    state: RunState::Sleeping,
    call: None,
    descriptor: None,
    loop_waits: false,
    functions: &[],
};

fn call(number: u32, arguments: [u64; 3]) -> Option<SystemCall> {
    let [a, b, c] = arguments;
    Some(SystemCall { number, arguments: [a, b, c, 0, 0, 0] })
}

fn cause(seen: Seen<'_>) -> Cause {
    classify(&seen).cause
}

fn called(number: u32, arguments: [u64; 3], functions: &[(u32, Known)]) -> Cause {
    cause(Seen { call: call(number, arguments), functions, ..QUIET })
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
    let finding = classify(&Seen { call: call(FUTEX, [0x1000, WAIT, 2]), ..QUIET });
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
    let read = |descriptor| cause(Seen { call: call(0, [3, 0, 0]), descriptor: Some(descriptor), ..QUIET });
    assert_eq!((read(Descriptor::Pipe), read(Descriptor::Socket)), (Cause::Io, Cause::Peer));
    let arm = Seen { architecture: Architecture::Arm64, call: call(115, [0; 3]), ..QUIET };
    assert_eq!(cause(arm), Cause::Sleeping, "by the architecture's own numbers");
}

#[test]
fn a_wait_for_events_is_idle_only_where_a_loop_makes_it() {
    assert_eq!(called(7, [0x1000, 1, 5000], &[]), Cause::Peer, "a poll in a callback");
    assert_eq!(called(7, [0x1000, 1, 5000], &function("g_main_context_iteration")), Cause::Idle);
    assert_eq!(called(232, [5, 0, 10], &function("uv__io_poll")), Cause::Idle);
    let timeout = |milliseconds: i32| {
        let finding = classify(&Seen { call: call(7, [0x1000, 1, milliseconds as u32 as u64]), ..QUIET });
        let found = finding.evidence().iter().find(|evidence| evidence.kind == EvidenceKind::Timeout);
        found.map(|evidence| evidence.a)
    };
    assert_eq!((timeout(5000), timeout(-1)), (Some(5_000_000_000), None));
    assert_eq!(cause(Seen { loop_waits: true, call: call(FUTEX, [1, WAIT, 2]), ..QUIET }), Cause::Idle);
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
    ] {
        assert_eq!(cause(Seen { functions: &function(name), ..QUIET }), expected, "{name}");
    }
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
    assert_eq!(called(POLL, [0; 3], &waits), Cause::Peer);
    let finding = classify(&Seen { call: call(POLL, [0; 3]), functions: &waits, ..QUIET });
    let named = finding.evidence().iter().find(|evidence| evidence.kind == EvidenceKind::Function).unwrap();
    assert_eq!((named.a, named.text), (2, &b"g_dbus_connection_send_message_with_reply_sync"[..]));
    assert_eq!(called(POLL, [0; 3], &functions(&["g_main_loop_run"])), Cause::Idle);
}
