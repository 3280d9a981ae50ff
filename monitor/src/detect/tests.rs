//! The detector on a fake clock.

use super::*;

const MS: u64 = 1_000_000;

/// A loop whose transitions are given, and a watcher that looks when it was told to.
struct World {
    detector: Detector,
    now: u64,
    reading: Reading,
    next: Next,
    verdicts: Vec<(u64, Verdict)>,
    looks: u32,
}

impl World {
    fn new() -> Self {
        let reading = Reading { epoch: (0, 0), busy: false, since_ns: 0, silence: None };
        let detector = Detector::new(Threshold::DEFAULT);
        let mut world = Self { detector, now: 0, reading, next: Next::At(0), verdicts: Vec::new(), looks: 0 };
        world.look_at(0);
        world
    }

    /// One look, at a time in ms.
    fn look_at(&mut self, now: u64) {
        self.look(now * MS);
    }

    fn look(&mut self, now_ns: u64) {
        self.now = now_ns;
        self.looks += 1;
        let step = self.detector.look(now_ns, self.reading);
        self.next = step.next;
        if !matches!(step.verdict, Verdict::Healthy | Verdict::StillFrozen { .. }) {
            self.verdicts.push((now_ns / MS, step.verdict));
        }
    }

    /// Every look that is due up to `at`, in ms.
    fn run_until(&mut self, at: u64) {
        while let Next::At(due) = self.next
            && due <= at * MS
        {
            self.look(due.max(self.now));
        }
        self.now = at * MS;
    }

    /// A transition, which wakes a parked watcher if it ends a wait.
    fn transition(&mut self, at: u64, busy: bool) {
        self.run_until(at);
        let (turns, resumptions) = self.reading.epoch;
        let silent = self.reading.busy && at * MS - self.reading.since_ns >= Threshold::DEFAULT.interval_ns;
        let silence = if silent { Some((turns, at * MS)) } else { self.reading.silence };
        let wakes = self.next == Next::Park && busy && !self.reading.busy;
        self.reading = Reading { epoch: (turns + 1, resumptions), busy, since_ns: at * MS, silence };
        if wakes {
            self.look_at(at);
        }
    }
}

fn frozen(started: u64) -> Verdict {
    Verdict::Frozen { started_ns: started * MS, discounted_ns: 0 }
}

#[test]
fn the_fifth_miss_falls_exactly_on_the_threshold_after_the_last_transition() {
    for offset in 0..50 {
        let mut world = World::new();
        world.transition(1000 + offset, true);
        world.transition(1000 + offset + 251, false);
        world.run_until(2000);
        let started = 1000 + offset;
        let detected = (started + 250, frozen(started));
        let recovered = (started + 300, Verdict::Recovered { duration_ns: 251 * MS });
        assert_eq!(world.verdicts, [detected, recovered], "offset {offset}");
    }
}

#[test]
fn a_freeze_shorter_than_the_threshold_is_none() {
    for length in [1, 49, 50, 199, 249] {
        let mut world = World::new();
        for start in (1000..50_000).step_by(1000) {
            world.transition(start, true);
            world.transition(start + length, false);
        }
        assert_eq!(world.verdicts, [], "{length} ms");
    }
}

#[test]
fn one_freeze_is_one_verdict_however_long_it_is() {
    let mut world = World::new();
    world.transition(1000, true);
    world.transition(61_000, true);
    world.transition(61_001, false);
    world.run_until(70_000);
    let last = world.verdicts.pop();
    assert_eq!(world.verdicts, [(1250, frozen(1000))]);
    // Two transitions in one tick: the first one ended the freeze.
    assert_eq!(last, Some((61_050, Verdict::Recovered { duration_ns: 60_000 * MS })));
}

#[test]
fn an_idle_loop_parks_the_watcher_after_a_whole_tick_and_a_busy_one_costs_twenty_looks_a_second() {
    let mut world = World::new();
    world.transition(1000, true);
    world.transition(1001, false);
    let (before, parked) = (world.looks, |world: &World| world.next == Next::Park);
    world.run_until(1049);
    assert!(!parked(&world));
    world.run_until(1101);
    assert!(
        parked(&world) && world.looks - before == 2,
        "one look that sees the wait begin, one a tick later"
    );
    world.run_until(3_600_000);
    assert_eq!(world.looks - before, 2);

    let mut world = World::new();
    for at in (1000..11_000).step_by(2) {
        world.transition(at, at % 4 == 0);
    }
    assert!((200..=215).contains(&world.looks), "{} looks in ten seconds", world.looks);
}

#[test]
fn ticks_that_come_late_are_discarded_and_do_not_make_a_freeze() {
    let mut world = World::new();
    world.transition(1000, true);
    world.run_until(1060);
    // The process was stopped for a second inside a callback of 100 ms.
    world.look_at(2100);
    world.transition(2140, false);
    world.run_until(5000);
    assert_eq!(world.verdicts, []);
    assert_eq!(world.detector.late_ticks(), 1);
}

#[test]
fn a_true_freeze_is_not_lost_in_a_late_tick_and_the_stopped_time_does_not_count() {
    let mut world = World::new();
    world.transition(1000, true);
    world.run_until(1110);
    // Two misses so far, at 1050 and 1100; the tick of 1150 comes ten seconds late.
    world.look_at(11_150);
    world.transition(11_400, false);
    world.run_until(12_000);
    let detected = (11_300, Verdict::Frozen { started_ns: 1000 * MS, discounted_ns: 10_000 * MS });
    let recovered = (11_450, Verdict::Recovered { duration_ns: 400 * MS });
    assert_eq!(world.verdicts[0], detected, "three more misses");
    assert_eq!(world.verdicts[1], recovered);
}

#[test]
fn time_in_which_the_process_was_stopped_does_not_count_whoever_runs_first_after_it() {
    for loop_first in [false, true] {
        let mut world = World::new();
        world.transition(1000, true);
        world.run_until(1310);
        // Stopped from 1,310 to 5,000, in the middle of a freeze that ends 20 ms later.
        if !loop_first {
            world.look_at(5000);
        }
        world.reading =
            Reading { epoch: (9, 0), busy: false, since_ns: 5020 * MS, silence: Some((1, 5020 * MS)) };
        world.look_at(5030);
        let Some((_, Verdict::Recovered { duration_ns })) = world.verdicts.last() else { panic!() };
        assert!((320..=370).contains(&(duration_ns / MS)), "{} ms", duration_ns / MS);
    }
}

#[test]
fn a_slightly_late_watcher_keeps_the_alignment() {
    let mut detector = Detector::new(Threshold::DEFAULT);
    let busy = Reading { epoch: (1, 0), busy: true, since_ns: 1000 * MS, silence: None };
    let mut now = 1001 * MS;
    while let Step { verdict: Verdict::Healthy, next: Next::At(next) } = detector.look(now, busy) {
        now = next + 7 * MS;
    }
    assert_eq!(now, 1257 * MS, "250 ms and this one tick's 7, not five times 7");
}

#[test]
fn a_pause_ends_a_freeze_in_the_open_and_resuming_starts_afresh() {
    let mut world = World::new();
    world.transition(1000, true);
    world.run_until(1300);
    world.reading.busy = false;
    world.run_until(1400);
    assert_eq!(world.verdicts[1].1, Verdict::Lost { duration_ns: world.verdicts[1].0 * MS - 1000 * MS });
    // Resumed at 5,000: the four seconds before do not count.
    world.now = 5000 * MS;
    world.reading =
        Reading { epoch: (world.reading.epoch.0, 1), since_ns: 5000 * MS, busy: true, ..world.reading };
    world.look_at(5000);
    world.run_until(5240);
    assert_eq!(world.verdicts.len(), 2);
    world.run_until(5250);
    assert_eq!(world.verdicts[2], (5250, frozen(5000)));
}

#[test]
fn hours_of_health_with_pauses_of_every_length_below_the_threshold_give_no_verdict() {
    let mut world = World::new();
    let mut random = 42u64;
    let mut at = 1000;
    while at < 3_600_000 {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        at += (random >> 33) % 249 + 1;
        world.transition(at, random >> 63 == 0);
    }
    assert_eq!(world.verdicts, []);
    assert_eq!(world.detector.late_ticks(), 0);
}

#[test]
fn every_random_freeze_gives_one_verdict_with_its_duration() {
    let mut world = World::new();
    let mut random = 7u64;
    let (mut at, mut expected) = (1000, Vec::new());
    for _ in 0..2_000 {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let length = 251 + (random >> 33) % 3000;
        world.transition(at, true);
        world.transition(at + length, false);
        expected.push(length * MS);
        at += length + 60 + random % 500;
    }
    world.run_until(at + 1000);
    let durations = world.verdicts.iter().filter_map(|(_, verdict)| match verdict {
        Verdict::Recovered { duration_ns } => Some(*duration_ns),
        _ => None,
    });
    assert!(durations.eq(expected));
    assert_eq!(world.verdicts.len(), 4_000);
}

#[test]
fn an_announcement_that_was_kept_leaves_no_time_that_counts_and_one_that_was_exceeded_leaves_all() {
    // 600 ms as announced, and 60 ms more in the same callback.
    let mut world = World::new();
    world.transition(1000, true);
    world.detector.expect_until(6000 * MS);
    world.run_until(1600);
    world.detector.expect_until(0);
    world.detector.start_afresh(1600 * MS);
    world.transition(1660, false);
    world.run_until(3000);
    assert_eq!(world.verdicts, []);
    // The same with 300 ms more: those are a freeze.
    world.transition(4000, true);
    world.detector.expect_until(9000 * MS);
    world.run_until(4600);
    world.detector.expect_until(0);
    world.detector.start_afresh(4600 * MS);
    world.transition(4900, false);
    world.run_until(6000);
    let recovered = world.verdicts.pop().unwrap().1;
    assert_eq!(
        (world.verdicts.pop(), recovered),
        (Some((4850, frozen(4600))), Verdict::Recovered { duration_ns: 300 * MS })
    );
    // Exceeded by less than a tick: noticed where it ends, with the whole duration.
    world.transition(7000, true);
    world.detector.expect_until(7603 * MS);
    world.transition(7610, false);
    world.detector.expect_until(0);
    world.run_until(9000);
    let recovered = world.verdicts.pop().unwrap().1;
    assert_eq!(
        (world.verdicts.pop(), recovered),
        (Some((7603, frozen(7000))), Verdict::Recovered { duration_ns: 610 * MS })
    );
}

#[test]
fn a_freeze_that_was_there_before_the_announcement_goes_on_when_that_is_taken_back() {
    let mut world = World::new();
    world.transition(1000, true);
    world.run_until(1400);
    world.detector.expect_until(5000 * MS);
    world.run_until(1700);
    world.detector.expect_until(0);
    world.detector.start_afresh(1700 * MS);
    world.transition(2000, false);
    world.run_until(3000);
    let recovered = (2050, Verdict::Recovered { duration_ns: 1000 * MS });
    assert_eq!(world.verdicts, [(1250, frozen(1000)), recovered]);
}

#[test]
fn what_the_watchers_own_work_takes_is_no_stop_of_the_process() {
    // At the detection it works for 150 ms, and again at 500 ms; the freeze lasts 600 ms.
    let mut world = World::new();
    world.transition(1000, true);
    world.run_until(1250);
    world.now = 1400 * MS;
    world.detector.wait_from(1400 * MS);
    world.run_until(1500);
    world.now = 1640 * MS;
    world.reading =
        Reading { epoch: (9, 0), busy: false, since_ns: 1600 * MS, silence: Some((1, 1600 * MS)) };
    world.detector.wait_from(1640 * MS);
    world.look_at(1640);
    assert_eq!(world.verdicts, [(1250, frozen(1000)), (1640, Verdict::Recovered { duration_ns: 600 * MS })]);
    assert_eq!(world.detector.late_ticks(), 0);
    // Before it: other loops' captures come first, and yet it is noticed as soon as that is over.
    world.transition(3000, true);
    world.run_until(3150);
    world.now = 3270 * MS;
    world.detector.wait_from(3270 * MS);
    world.run_until(3270);
    assert_eq!(world.verdicts[2..], [(3270, frozen(3000))]);
    assert_eq!(world.detector.late_ticks(), 0);
    // Whoever works for ten seconds was stopped meanwhile.
    world.now = 13_270 * MS;
    world.detector.wait_from(13_270 * MS);
    world.look_at(13_270);
    assert_eq!(world.detector.late_ticks(), 1);
    world.transition(13_300, false);
    world.run_until(14_000);
    let Some((_, Verdict::Recovered { duration_ns })) = world.verdicts.last() else { panic!() };
    assert!((300..=900).contains(&(duration_ns / MS)), "{} ms", duration_ns / MS);
}
