//! Every order of the loop's steps and the watcher's.

use super::*;
use crate::detect::Reading;
use freezeframe_races::{explore, loom::thread};

const INTERVAL_NS: u64 = 50;

fn shared() -> Arc<BeaconShared> {
    let control = Control::default();
    control.interval_ns.store(INTERVAL_NS, Ordering::Relaxed);
    let shared = BeaconShared::new(ThreadId(1), Arc::new(control));
    shared.board.begin_at(0);
    Arc::new(shared)
}

/// Two silences, with times that belong to their epochs alone.
const TURNS: [(Activity, u64); 4] = [
    (Activity::AfterWaiting, 1000),
    (Activity::BeforeSources, 2000),
    (Activity::BeforeTimers, 2001),
    (Activity::BeforeWaiting, 2002),
];

#[test]
fn a_reading_is_of_one_epoch() {
    explore("beacon: a reading is of one epoch", Some(2), || {
        let shared = shared();
        let of_loop = shared.clone();
        let turning = thread::spawn(move || {
            TURNS.iter().for_each(|(activity, now)| of_loop.store_at(*activity, *now));
        });
        let mut source = shared;
        let watched = source.read(0);
        let (epoch, reading) = (watched.reading.epoch.0, watched.reading);
        let expected = epoch.checked_sub(1).map_or((Activity::Exit, 0), |turn| TURNS[turn as usize]);
        assert_eq!((watched.activity, reading.since_ns), (expected.0 as u8, expected.1), "epoch {epoch}");
        assert_eq!(reading.silence, (epoch >= 2).then_some((1, 2000)), "epoch {epoch}");
        turning.join().unwrap();
    });
}

#[test]
fn a_silence_has_its_own_end() {
    const SILENCES: [(Activity, u64); 3] =
        [(Activity::AfterWaiting, 1000), (Activity::BeforeSources, 2000), (Activity::BeforeSources, 3000)];
    explore("beacon: a silence has its own end", Some(2), || {
        let shared = shared();
        let of_loop = shared.clone();
        let turning = thread::spawn(move || {
            SILENCES.iter().for_each(|(activity, now)| of_loop.store_at(*activity, *now));
        });
        let mut source = shared;
        if let Some((epoch, end_ns)) = source.read(0).reading.silence {
            assert_eq!(end_ns, (epoch + 1) * 1000);
        }
        turning.join().unwrap();
    });
}

#[test]
fn a_loop_that_leaves_its_wait_wakes_a_parked_watcher() {
    explore("beacon: a parked watcher is woken", None, || {
        let mut source = shared();
        source.store_at(Activity::BeforeWaiting, 1);
        let idle = source.read(0);
        let of_loop = source.clone();
        let turning = thread::spawn(move || of_loop.store_at(Activity::AfterWaiting, 2));
        // Sleeps without a deadline: if nobody woke it, no thread could go on, which is a failure.
        if source.park(&idle) {
            source.control.wake.wait();
            assert!(!source.unchanged(&idle) && source.read(0).reading.busy, "woken for what it waits for");
        } else {
            assert!(source.read(0).reading.busy);
        }
        turning.join().unwrap();
    });
}

#[test]
fn a_watcher_parks_again_and_again() {
    explore("beacon: a watcher parks again", Some(2), || {
        let mut source = shared();
        source.store_at(Activity::BeforeWaiting, 1);
        let of_loop = source.clone();
        let turning = thread::spawn(move || {
            [Activity::AfterWaiting, Activity::BeforeWaiting, Activity::AfterWaiting]
                .iter()
                .for_each(|activity| of_loop.store_at(*activity, 2));
        });
        loop {
            let watched = source.read(0);
            if watched.reading.epoch.0 == 4 {
                break;
            }
            if source.park(&watched) {
                // In a busy epoch nothing would wake it; the detector does not park then.
                if watched.reading.busy {
                    source.control.wake.wait_until(0);
                    thread::yield_now();
                } else {
                    source.control.wake.wait();
                }
            }
        }
        turning.join().unwrap();
    });
}

#[test]
fn a_reading_after_a_pause_starts_afresh() {
    explore("monitor: a reading after a pause starts afresh", None, || {
        let control = Arc::new(Control::default());
        control.pause();
        let of_owner = control.clone();
        let owner = thread::spawn(move || {
            of_owner.resume(77);
            of_owner.pause();
            of_owner.resume(88);
        });
        let before = Reading { epoch: (5, 0), busy: true, since_ns: 3, silence: None };
        let reading = control.with_pauses(before);
        if reading.busy {
            assert!(
                reading.epoch.1 >= 1 && reading.since_ns >= 77,
                "the time before the pause counts: {reading:?}"
            );
        }
        owner.join().unwrap();
    });
}
