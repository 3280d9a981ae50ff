//! The detector on a fake clock.

use super::*;

const MS: u64 = 1_000_000;

/// A loop whose transitions are given, and a watcher that looks exactly when it was told to, or later.
struct World {
    detector: Detector,
    now: u64,
    reading: Reading,
    verdicts: Vec<(u64, Verdict)>,
    looks: u32,
}

impl World {
    fn new() -> Self {
        let reading = Reading { epoch: (0, 0), busy: false, since_ns: 0 };
        let mut world = Self {
            detector: Detector::new(Threshold::DEFAULT),
            now: 0,
            reading,
            verdicts: Vec::new(),
            looks: 0,
        };
        world.look();
        world
    }

    fn look(&mut self) -> Next {
        self.looks += 1;
        let step = self.detector.look(self.now, self.reading);
        if !matches!(step.verdict, Verdict::Healthy | Verdict::StillFrozen { .. }) {
            self.verdicts.push((self.now / MS, step.verdict));
        }
        step.next
    }

    /// Lets the watcher look on time until `at` (ms), and once then if it is parked there.
    fn run_until(&mut self, at: u64) {
        while let Next::At(next) = self.look()
            && next <= at * MS
        {
            self.now = self.now.max(next);
        }
        self.now = at * MS;
    }

    fn transition(&mut self, at: u64, busy: bool) {
        self.run_until(at);
        self.reading =
            Reading { epoch: (self.reading.epoch.0 + 1, self.reading.epoch.1), busy, since_ns: at * MS };
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
    // Two transitions in one tick: the first is not known any more, so the duration is exact to a tick.
    assert!(matches!(last, Some((_, Verdict::Recovered { duration_ns })) if duration_ns / MS == 60_001));
}

#[test]
fn an_idle_loop_parks_the_watcher_after_a_whole_tick_and_a_busy_one_costs_twenty_looks_a_second() {
    let mut world = World::new();
    world.transition(1000, false);
    world.run_until(1049);
    assert_ne!(world.look(), Next::Park);
    world.now = 1050 * MS;
    assert_eq!(world.look(), Next::Park);

    let mut world = World::new();
    let before = world.looks;
    for at in (1000..11_000).step_by(2) {
        // Only the watcher's own ticks count here.
        world.reading = Reading { epoch: (at, 0), busy: true, since_ns: at * MS };
        if let Next::At(next) = Detector::look(&mut world.detector, world.now, world.reading).next
            && next <= at * MS
        {
            (world.now, world.looks) = (next, world.looks + 1);
        }
    }
    assert!((190..=210).contains(&(world.looks - before)), "{} looks in ten seconds", world.looks - before);
}

#[test]
fn ticks_that_come_late_are_discarded_and_do_not_make_a_freeze() {
    let mut world = World::new();
    world.transition(1000, true);
    world.run_until(1060);
    // The process was stopped for a second inside a callback of 100 ms.
    world.now = 2100 * MS;
    world.look();
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
    world.now = 11_150 * MS;
    world.look();
    world.transition(11_400, false);
    world.run_until(12_000);
    let detected = (11_300, Verdict::Frozen { started_ns: 1000 * MS, discounted_ns: 10_000 * MS });
    let recovered = (11_400, Verdict::Recovered { duration_ns: 400 * MS });
    assert_eq!(world.verdicts[0], detected, "three more misses");
    assert!(world.verdicts[1].0 <= 11_450 && world.verdicts[1].1 == recovered.1, "{:?}", world.verdicts);
}

#[test]
fn a_slightly_late_watcher_keeps_the_alignment() {
    let mut detector = Detector::new(Threshold::DEFAULT);
    let busy = Reading { epoch: (1, 0), busy: true, since_ns: 1000 * MS };
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
    world.reading = Reading { epoch: (world.reading.epoch.0, 1), busy: true, since_ns: 5000 * MS };
    world.run_until(5240);
    assert_eq!(world.verdicts.len(), 2);
    world.run_until(5250);
    world.look();
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
