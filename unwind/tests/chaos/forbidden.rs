//! What the system does not let us do.

use crate::common::spin_inner;
use crate::harness::{CASE, Threads, alone, become_nobody, capture, one_by_one, ready, together};
use freezeframe_unwind::snapshot::{Held, Set};
use freezeframe_unwind::suspend::SuspendError;
use freezeframe_unwind::walk::StopReason;
use std::io::{BufRead, BufReader, Write};
use std::process::Child;
use std::time::{Duration, Instant};

#[test]
fn where_the_process_may_not_be_looked_into_signals_are_left() {
    let body = |_| {
        become_nobody();
        let (suspender, threads) = (ready(), Threads::start());
        // SAFETY: a number.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) }, 0);
        let captured = capture(&suspender, together());
        assert_eq!(captured.set, Set::NotTogether(SuspendError::NotDumpable));
        let waits = captured.thread(threads.waits.id);
        assert!(matches!(waits.held, Held::Signal { .. }), "{waits:?}");
        assert_eq!(waits.not_better, Some(SuspendError::Untold));
        assert!(captured.is_in(threads.runs.id, spin_inner as *const () as usize));
        assert_eq!(captured.held(threads.deaf.id), Held::Not(SuspendError::NotDumpable));
        assert_eq!(
            capture(&suspender, one_by_one()).held(threads.deaf.id),
            Held::Not(SuspendError::SignalBlocked)
        );
        threads.assert_go_on();
    };
    alone(0, body, |_| {});
}

/// Traces all threads of a process as a debugger does: signals pass.
fn debug(child: &mut Child) {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.find(|line| line.as_ref().is_ok_and(|line| line.ends_with("ready"))).unwrap().unwrap();
    // It has more to say, and somebody must hear it.
    std::thread::spawn(move || lines.for_each(drop));
    let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let tids: Vec<i32> =
        tasks.map(|task| task.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
    // On a thread of its own: when that ends, the kernel lets go of whom it traces. A stop that nobody has waited for would
    // be taken for the end of the process.
    std::thread::scope(|scope| {
        let tracer = scope.spawn(|| {
            // SAFETY: requests about threads of our child, without pointers.
            unsafe {
                for tid in &tids {
                    assert_eq!(libc::ptrace(libc::PTRACE_SEIZE, *tid, 0, 0), 0);
                }
                child.stdin.take().unwrap().write_all(b"go\n").unwrap();
                let begun = Instant::now();
                let mut alive = tids.len();
                while alive > 0 && begun.elapsed() < Duration::from_secs(30) {
                    alive = 0;
                    for tid in &tids {
                        let mut status = 0;
                        // The status of the process itself is for who waits for it.
                        let leader = *tid == child.id() as i32;
                        match libc::waitpid(*tid, &mut status, libc::__WALL | libc::WNOHANG) {
                            0 => alive += usize::from(!leader),
                            got if got == *tid && libc::WIFSTOPPED(status) => {
                                let signal = if status >> 16 == 0 { libc::WSTOPSIG(status) } else { 0 };
                                libc::ptrace(libc::PTRACE_CONT, *tid, 0, signal);
                                alive += 1;
                            }
                            _ => {}
                        }
                    }
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        });
        tracer.join().unwrap();
    });
}

#[test]
fn where_a_debugger_is_attached_threads_are_read_one_by_one() {
    let body = |_| {
        let (suspender, threads) = (ready(), Threads::start());
        println!("\nready");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        let captured = capture(&suspender, together());
        assert_eq!(captured.set, Set::NotTogether(SuspendError::Traced));
        assert_eq!(captured.held(threads.waits.id), Held::Peek);
        let runs = captured.thread(threads.runs.id);
        assert!(matches!(runs.held, Held::Signal { .. }), "{runs:?}");
        assert!(captured.is_in(threads.runs.id, spin_inner as *const () as usize));
        assert_eq!(captured.held(threads.deaf.id), Held::Not(SuspendError::Traced));
        threads.assert_go_on();
    };
    alone(0, body, debug);
}

/// Makes these system calls fail with that error, in every thread.
fn forbid(calls: &[libc::c_long], error: i32) {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let (load, equal, give) = (libc::BPF_LD | libc::BPF_W, libc::BPF_JMP | libc::BPF_JEQ, libc::BPF_RET);
    let mut program = vec![step(load | libc::BPF_ABS, 0, 0, 0)];
    for call in calls {
        program.push(step(equal | libc::BPF_K, 0, 1, *call as u32));
        program.push(step(give | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32));
    }
    program.push(step(give | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: a program of the length that is said.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
        assert_eq!(libc::syscall(libc::SYS_seccomp, mode, flags, &raw const filter), 0);
    }
}

#[test]
fn where_a_filter_forbids_tracing_or_reading_memory_the_other_is_done() {
    const PTRACE: i64 = libc::SYS_ptrace;
    const READV: i64 = libc::SYS_process_vm_readv;
    const CASES: [(&[libc::c_long], i32); 6] = [
        (&[PTRACE], libc::EPERM),
        (&[PTRACE], libc::ENOSYS),
        (&[READV], libc::EPERM),
        (&[READV], libc::ENOSYS),
        (&[PTRACE, READV], libc::EPERM),
        (&[PTRACE, READV], libc::ENOSYS),
    ];
    let body = |case: usize| {
        let (suspender, threads) = (ready(), Threads::start());
        let (calls, error) = CASES[case];
        forbid(calls, error);
        let may_trace = !calls.contains(&PTRACE);
        for _ in 0..2 {
            let captured = capture(&suspender, together());
            if may_trace {
                assert!(matches!(captured.set, Set::Together { .. }), "{:?}", captured.set);
                let deaf = captured.held(threads.deaf.id);
                assert!(matches!(deaf, Held::Ptrace { .. }), "{deaf:?}");
            } else {
                assert_eq!(captured.set, Set::NotTogether(SuspendError::Forbidden));
                assert_eq!(captured.held(threads.waits.id), Held::Peek);
                assert!(matches!(captured.held(threads.runs.id), Held::Signal { .. }));
                assert_eq!(captured.held(threads.deaf.id), Held::Not(SuspendError::Forbidden));
            }
            assert!(captured.is_in(threads.runs.id, spin_inner as *const () as usize));
            assert!(captured.thread(threads.waits.id).summary.kept > 3);
        }
        threads.assert_go_on();
    };
    for case in 0..CASES.len() {
        alone(case, body, |_| {});
        if std::env::var(CASE).is_ok() {
            return;
        }
    }
}

#[test]
fn where_no_memory_can_be_read_each_walk_says_which_calls_fail() {
    let calls = [libc::SYS_process_vm_readv, libc::SYS_pipe2];
    let body = |case: usize| {
        let threads = Threads::start();
        let ids = [threads.waits.id, threads.runs.id, threads.deaf.id];
        let refused = |process_vm_readv, pipe2| StopReason::MemoryRefused { process_vm_readv, pipe2 };
        if case == 0 {
            forbid(&calls[..1], libc::ENOSYS);
            forbid(&calls[1..], libc::EPERM);
            let suspender = ready();
            for options in [one_by_one(), together()] {
                let captured = capture(&suspender, options);
                for id in ids {
                    let thread = captured.thread(id);
                    assert!(thread.registers.is_some() && thread.summary.kept == 1, "{thread:?}");
                    assert_eq!(thread.summary.stop, refused(libc::ENOSYS as u16, libc::EPERM as u16));
                }
            }
            let told = "no memory can be read: process_vm_readv fails with error 38, pipe2 with 1";
            assert_eq!(refused(38, 1).to_string(), told);
            let (code, number) = refused(38, 1).code();
            assert_eq!(StopReason::from_code(code, number), Some(refused(38, 1)));
        } else {
            // A pipe was kept from before.
            let suspender = ready();
            forbid(&calls, libc::EPERM);
            for options in [one_by_one(), together()] {
                let captured = capture(&suspender, options);
                assert!(ids.iter().all(|id| captured.thread(*id).summary.kept > 3));
                assert!(captured.is_in(threads.deaf.id, spin_inner as *const () as usize));
            }
        }
        threads.assert_go_on();
    };
    for case in 0..2 {
        alone(case, body, |_| {});
        if std::env::var(CASE).is_ok() {
            return;
        }
    }
}
