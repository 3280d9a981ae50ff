//! Every order of a capturer's steps, a target's and the clock's.

extern crate std;
use super::*;
use freezeframe_arch::{RegistersArm64, RegistersX86_64};
use freezeframe_races::{explore, futex, loom::thread};
use std::sync::Arc;

const GIVE_UP: u64 = 10;
const DEADLINE: u64 = 20;

fn shared() -> Arc<Shared> {
    Arc::new(Shared {
        word: AtomicU32::new(0),
        owner: AtomicI32::new(0),
        target: AtomicI32::new(0),
        deadline: AtomicU64::new(0),
        stopped_at: AtomicU64::new(0),
        registers: Cell::new(Registers::ZERO),
    })
}

fn registers(pc: u64) -> Registers {
    match Registers::ZERO {
        Registers::X86_64(registers) => Registers::X86_64(RegistersX86_64 { rip: pc, ..registers }),
        Registers::Arm64(registers) => Registers::Arm64(RegistersArm64 { pc, ..registers }),
    }
}

/// The signal's arrival: the handler runs on a thread of its own.
fn signal(shared: &Arc<Shared>, thread: i32, pc: u64) -> thread::JoinHandle<bool> {
    let shared = shared.clone();
    thread::spawn(move || shared.answer(ThreadId(thread), registers(pc)))
}

#[test]
fn a_thread_stands_still_with_its_registers_until_it_is_let_go() {
    explore("handshake: stopped and let go, twice", Some(3), || {
        let shared = shared();
        for round in 1..=2 {
            let request = shared.request(ThreadId(7), DEADLINE).unwrap();
            let target = signal(&shared, 7, round);
            let Answer::Parked(parked, found) = shared.wait_for_answer(request, GIVE_UP) else {
                panic!("no time has passed")
            };
            assert_eq!(found.pc(), round);
            assert!(shared.let_go(parked), "nothing else ends it");
            assert!(target.join().unwrap());
        }
    });
}

#[test]
fn whoever_is_late_both_go_on_and_the_next_round_is_whole() {
    explore("handshake: late on either side", Some(2), || {
        let shared = shared();
        let request = shared.request(ThreadId(7), DEADLINE).unwrap();
        let target = signal(&shared, 7, 1);
        let clock = thread::spawn(|| {
            futex::advance(GIVE_UP);
            futex::advance(DEADLINE);
        });
        match shared.wait_for_answer(request, GIVE_UP) {
            Answer::Parked(parked, found) => {
                assert_eq!(found.pc(), 1);
                shared.let_go(parked);
            }
            Answer::Expired | Answer::Withdrawn => {}
        }
        target.join().unwrap();
        clock.join().unwrap();
        // Nobody is in the middle of anything: a second round begins at once and reads its own registers.
        let request = shared.request(ThreadId(7), 2 * DEADLINE).unwrap();
        let target = signal(&shared, 7, 2);
        let Answer::Parked(parked, found) = shared.wait_for_answer(request, 2 * GIVE_UP + 1) else {
            panic!("the second round was not answered")
        };
        assert!(found.pc() == 2 && shared.let_go(parked) && target.join().unwrap());
    });
}

#[test]
fn a_late_signal_answers_for_no_other_thread() {
    explore("handshake: a late signal meets the next request", Some(2), || {
        let shared = shared();
        let request = shared.request(ThreadId(7), DEADLINE).unwrap();
        let late = signal(&shared, 7, 1);
        if !shared.withdraw(request) {
            // It was fast after all.
            shared.let_go(with(request, state::PARKED));
            late.join().unwrap();
            return;
        }
        // Busy while the first target still writes its registers: those must not be touched by another.
        let Ok(request) = shared.request(ThreadId(8), DEADLINE) else {
            late.join().unwrap();
            return;
        };
        let other = signal(&shared, 8, 2);
        let Answer::Parked(parked, found) = shared.wait_for_answer(request, GIVE_UP) else {
            panic!("no time has passed")
        };
        assert_eq!(found.pc(), 2, "the thread that was not asked has answered");
        assert!(shared.let_go(parked));
        assert!(other.join().unwrap());
        late.join().unwrap();
    });
}

#[test]
fn one_capturer_at_a_time_and_the_next_sees_what_the_last_has_left() {
    explore("handshake: two capturers", Some(2), || {
        let shared = shared();
        let capture = |shared: &Arc<Shared>, me: i32| {
            if shared.take(0, me).is_err() {
                return;
            }
            let request = shared.request(ThreadId(me + 10), DEADLINE).unwrap();
            let target = signal(shared, me + 10, me as u64);
            let Answer::Parked(parked, found) = shared.wait_for_answer(request, GIVE_UP) else {
                panic!("no time has passed")
            };
            assert_eq!(found.pc(), me as u64);
            assert!(shared.let_go(parked));
            shared.leave(me);
            target.join().unwrap();
        };
        let other = shared.clone();
        let second = thread::spawn(move || capture(&other, 2));
        capture(&shared, 1);
        second.join().unwrap();
    });
}

#[test]
fn a_capturer_that_crashes_leaves_nobody_behind() {
    explore("handshake: a capturer crashes in its session", Some(3), || {
        let shared = shared();
        shared.take(0, 1).unwrap();
        shared.request(ThreadId(7), u64::MAX).unwrap();
        let target = signal(&shared, 7, 1);
        shared.give_up(1);
        target.join().unwrap();
        shared.take(0, 2).unwrap();
        let request = shared.request(ThreadId(7), DEADLINE).unwrap();
        let target = signal(&shared, 7, 2);
        let Answer::Parked(parked, found) = shared.wait_for_answer(request, GIVE_UP) else {
            panic!("no time has passed")
        };
        assert!(found.pc() == 2 && shared.let_go(parked) && target.join().unwrap());
    });
}
