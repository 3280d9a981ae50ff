//! The helper on real threads, and what becomes of them when it does not come to its end.

extern crate std;
use super::*;
use crate::threads::{RunState, facts};
use core::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::vec::Vec;

/// What the helper does to itself, and in which step: see [`strike`].
static CHAOS: AtomicU32 = AtomicU32::new(0);
const KILL: u32 = 1;
const FAULT: u32 = 2;
const OVERSLEEP: u32 = 3;
const OVERFLOW: u32 = 4;

/// Called by the helper when it comes to a step.
pub(super) fn strike(step: Step) {
    let order = CHAOS.load(Ordering::Relaxed);
    if order >> 8 != step as u32 {
        return;
    }
    match order & 0xff {
        KILL => drop(sys::kill(sys::getpid(), libc::SIGKILL)),
        // SAFETY: none: it is what the fault handler is for.
        FAULT => unsafe { core::ptr::null_mut::<u8>().write_volatile(1) },
        OVERSLEEP => sys::sleep_until(sys::monotonic() + 600_000_000_000),
        OVERFLOW => drop(recurse(1)),
        _ => {}
    }
}

#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let room = std::hint::black_box([depth; 64]);
    if depth == 0 { room[1] } else { recurse(depth + 1) + room[0] }
}

/// One helper at a time, and none while threads must not be stopped: it stops those of all tests.
pub(in super::super) fn quiet() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// None where there is no ptrace.
fn turn() -> Option<MutexGuard<'static, ()>> {
    let turn = quiet();
    prepare(Registration::Leave).unwrap();
    let mut seats = [Seat::EMPTY; 4];
    let (helped, _) = hold_together(&request(), room(&mut seats, &mut [], 0));
    if helped.end == Err(HelperError::NotMade(libc::EINVAL)) {
        std::println!("skipped: qemu-user has no such clone");
        return None;
    }
    Some(turn)
}

fn request() -> Request<'static> {
    let patient = 20_000_000_000;
    let main_stack = Range { start: 0, end: 0 };
    Request {
        exclude: &[],
        everybody: true,
        main_stack,
        beneath: 128,
        stop_within_ns: patient,
        straggler_ns: patient,
        hold_at_most_ns: patient,
    }
}

fn room<'a>(seats: &'a mut [Seat], arena: &'a mut [u8], taken: usize) -> Room<'a> {
    Room { seats, taken, arena, first_window: 64 << 10, other_window: 16 << 10 }
}

/// Threads that count, and one that blocks every signal and sleeps.
struct Crowd {
    ids: Vec<ThreadId>,
    turns: Vec<Arc<AtomicU64>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    fn start(spinning: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (send, receive) = mpsc::channel();
        let turns: Vec<Arc<AtomicU64>> = (0..=spinning).map(|_| Arc::default()).collect();
        let threads = turns.iter().cloned().enumerate().map(|(n, turns)| {
            let (send, stop) = (send.clone(), stop.clone());
            std::thread::spawn(move || {
                sys::signal_mask(libc::SIG_BLOCK, if n == 0 { u64::MAX } else { 0 });
                send.send((n, threads::current())).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    turns.fetch_add(1, Ordering::Relaxed);
                    if n == 0 {
                        std::thread::sleep(Duration::from_micros(100));
                    }
                }
            })
        });
        let threads = threads.collect();
        let mut ids: Vec<_> = (0..=spinning).map(|_| receive.recv().unwrap()).collect();
        ids.sort();
        Self { ids: ids.into_iter().map(|(_, id)| id).collect(), turns, stop, threads }
    }

    /// Waits until each has gone on, and asserts that nobody traces or has stopped it.
    fn assert_goes_on(&self) {
        let before: Vec<u64> = self.turns.iter().map(|turns| turns.load(Ordering::SeqCst)).collect();
        let begun = Instant::now();
        for (turns, before) in self.turns.iter().zip(before) {
            while turns.load(Ordering::SeqCst) == before {
                assert!(begun.elapsed() < Duration::from_secs(20), "a thread was left standing");
                std::thread::yield_now();
            }
        }
        for id in &self.ids {
            assert_ne!(facts(*id).state, RunState::Stopped);
            let status = std::fs::read_to_string(std::format!("/proc/self/task/{}/status", id.0)).unwrap();
            assert!(status.contains("TracerPid:\t0\n"), "{status}");
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

fn seats_for(crowd: &Crowd) -> Vec<Seat> {
    let mut seats: Vec<Seat> = crowd.ids.iter().map(|id| Seat::of(*id)).collect();
    seats.resize(256, Seat::EMPTY);
    seats
}

#[test]
fn all_threads_are_held_at_one_time_and_go_on_after() {
    let Some(_turn) = turn() else { return };
    let crowd = Crowd::start(6);
    for _ in 0..20 {
        let mut seats = seats_for(&crowd);
        let mut arena = std::vec![0; 4 << 20];
        let (helped, taken) = hold_together(&request(), room(&mut seats, &mut arena, crowd.ids.len()));
        assert_eq!(helped, Helped { end: Ok(()), standing: 0 });
        assert!(taken >= crowd.ids.len());
        let read: Vec<&Seat> = seats[..taken].iter().filter(|seat| seat.state == SeatState::Read).collect();
        assert!(read.len() >= crowd.ids.len(), "{read:?}");
        let last_begun = read.iter().map(|seat| seat.held.start).max().unwrap();
        let first_ended = read.iter().map(|seat| seat.held.end).min().unwrap();
        assert!(last_begun < first_ended, "there was a moment at which all were held");
        for (seat, id) in seats.iter().zip(&crowd.ids) {
            assert_eq!((seat.thread, seat.state), (*id, SeatState::Read));
            assert_eq!(seat.base, seat.registers.sp() - 128);
            let bytes = &arena[seat.window.start as usize..seat.window.end as usize];
            assert!(bytes.len() > 64, "{seat:?}");
            assert!(bytes.iter().any(|byte| *byte != 0));
        }
        assert!(!seats[..taken].iter().any(|seat| seat.thread == threads::current()));
        crowd.assert_goes_on();
    }
}

#[test]
fn a_helper_that_dies_at_any_step_leaves_nobody_standing() {
    let Some(_turn) = turn() else { return };
    let crowd = Crowd::start(3);
    let steps = [Step::Starting, Step::Seizing, Step::Gathering, Step::Reading, Step::Releasing, Step::Done];
    for order in [KILL, FAULT, OVERFLOW] {
        for step in steps {
            let mut seats = seats_for(&crowd);
            let mut arena = std::vec![0; 1 << 20];
            CHAOS.store((step as u32) << 8 | order, Ordering::Relaxed);
            let begun = Instant::now();
            let (helped, _) = hold_together(&request(), room(&mut seats, &mut arena, crowd.ids.len()));
            CHAOS.store(0, Ordering::Relaxed);
            assert_eq!(helped.end, Err(HelperError::Died(step)), "{order}");
            assert!(begun.elapsed() < Duration::from_secs(10), "nobody waits for who is dead");
            let read = seats.iter().filter(|seat| seat.state == SeatState::Read).count();
            assert_eq!(read >= crowd.ids.len(), step >= Step::Releasing, "what was read stays: {read}");
            for seat in seats.iter().filter(|seat| seat.held.start != 0) {
                assert!(seat.held.end >= seat.held.start, "{seat:?}");
            }
            crowd.assert_goes_on();
        }
    }
    let (helped, _) = hold_together(&request(), room(&mut seats_for(&crowd), &mut [], crowd.ids.len()));
    assert_eq!(helped.end, Ok(()), "the next helper has the stack for itself");
}

#[test]
fn a_helper_that_takes_too_long_is_killed_at_the_deadline() {
    let Some(_turn) = turn() else { return };
    let crowd = Crowd::start(3);
    for step in [Step::Starting, Step::Seizing, Step::Gathering, Step::Reading, Step::Releasing] {
        let mut seats = seats_for(&crowd);
        let request = Request { stop_within_ns: 500_000_000, hold_at_most_ns: 100_000_000, ..request() };
        CHAOS.store((step as u32) << 8 | OVERSLEEP, Ordering::Relaxed);
        let begun = Instant::now();
        let (helped, _) = hold_together(&request, room(&mut seats, &mut [], crowd.ids.len()));
        CHAOS.store(0, Ordering::Relaxed);
        assert_eq!(helped.end, Err(HelperError::Late(step)));
        assert!((600..10_000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
        crowd.assert_goes_on();
    }
}

#[test]
fn threads_beyond_the_seats_are_counted_and_not_stopped() {
    let Some(_turn) = turn() else { return };
    let crowd = Crowd::start(5);
    let mut seats = [Seat::of(crowd.ids[2]), Seat::of(crowd.ids[4]), Seat::EMPTY];
    let mut arena = std::vec![0; 1 << 20];
    let (helped, taken) = hold_together(&request(), room(&mut seats, &mut arena, 2));
    assert_eq!((helped.end, taken), (Ok(()), 3));
    // At least the other four of the crowd, one of whom has taken the free seat, unless another test's thread has.
    assert!(helped.standing >= 3, "{helped:?}");
    assert_eq!(seats.map(|seat| seat.thread)[..2], [crowd.ids[2], crowd.ids[4]]);
    assert!(seats[..2].iter().all(|seat| seat.state == SeatState::Read));
    crowd.assert_goes_on();
}

#[test]
fn only_those_with_a_seat_are_stopped_if_that_is_asked_for() {
    let Some(_turn) = turn() else { return };
    let crowd = Crowd::start(3);
    let mut seats = [Seat::of(crowd.ids[0]), Seat::EMPTY, Seat::EMPTY];
    let mut arena = std::vec![0; 1 << 16];
    let request = Request { everybody: false, ..request() };
    let (helped, taken) = hold_together(&request, room(&mut seats, &mut arena, 1));
    assert_eq!((helped, taken), (Helped { end: Ok(()), standing: 0 }, 1));
    assert_eq!(seats.map(|seat| seat.state), [SeatState::Read, SeatState::Listed, SeatState::Listed]);
}

#[test]
fn who_is_left_out_is_not_stopped_and_a_small_arena_cuts_stacks_short() {
    let Some(_turn) = turn() else { return };
    let crowd = Crowd::start(2);
    let mut seats = seats_for(&crowd);
    let mut arena = [0; 600];
    let request = Request { exclude: &crowd.ids[1..2], ..request() };
    let mut room = room(&mut seats, &mut arena, crowd.ids.len());
    (room.first_window, room.other_window) = (64, 256);
    let (helped, _) = hold_together(&request, room);
    assert_eq!(helped.end, Ok(()));
    assert_eq!(seats[1].state, SeatState::Listed);
    let sizes = [&seats[0], &seats[2]].map(|seat| seat.window.end - seat.window.start);
    assert_eq!(sizes, [64, 256]);
}

#[test]
fn a_thread_that_has_ended_is_gone_and_a_signal_on_its_way_arrives() {
    let Some(_turn) = turn() else { return };
    static HEARD: AtomicU32 = AtomicU32::new(0);
    extern "C" fn hear(_: i32) {
        HEARD.fetch_add(1, Ordering::SeqCst);
    }
    // SAFETY: the handler only counts.
    unsafe { sys::handle_signals(&[libc::SIGUSR1], hear as *const () as usize) };
    let crowd = Crowd::start(3);
    let ended = std::thread::spawn(threads::current).join().unwrap();
    while facts(ended).state != RunState::Unknown {
        std::thread::yield_now();
    }
    for round in 1..=200 {
        let mut seats = [Seat::EMPTY; 64];
        (seats[0], seats[1]) = (Seat::of(ended), Seat::of(crowd.ids[1]));
        sys::tgkill(sys::getpid(), crowd.ids[1].0, libc::SIGUSR1).unwrap();
        let (helped, _) = hold_together(&request(), room(&mut seats, &mut [], 2));
        assert_eq!(helped.end, Ok(()));
        assert_eq!(seats[0].state, SeatState::Listed, "it was not there to be stopped");
        assert_eq!(seats[1].state, SeatState::Read);
        let begun = Instant::now();
        while HEARD.load(Ordering::SeqCst) < round {
            assert!(begun.elapsed() < Duration::from_secs(20), "signal {round} got lost");
            std::thread::yield_now();
        }
    }
    assert_eq!(HEARD.load(Ordering::SeqCst), 200, "none came twice");
    crowd.assert_goes_on();
}
