//! On a fake clock: a loop, a watcher that looks when it was told to, and a machine that may stop both.

use super::{Scenario, scenario};
use freezeframe_monitor::{Activity, Detector, Next, Reading, Threshold, Verdict};

const MS: u64 = 1_000_000;

/// A loop whose activities are given, and its watcher. Times are in ms.
struct World {
    detector: Detector,
    now: u64,
    reading: Reading,
    next: Next,
    looks: u32,
    freezes: u32,
    durations: Vec<u64>,
}

impl World {
    fn new() -> Self {
        let reading = Reading { epoch: (0, 0), busy: false, since_ns: 0, silence: None };
        let detector = Detector::new(Threshold::DEFAULT);
        let (next, durations) = (Next::At(0), Vec::new());
        Self { detector, now: 0, reading, next, looks: 0, freezes: 0, durations }
    }

    fn look(&mut self, now_ns: u64) {
        self.looks += 1;
        let step = self.detector.look(now_ns, self.reading);
        self.next = step.next;
        match step.verdict {
            Verdict::Frozen { .. } => self.freezes += 1,
            Verdict::Recovered { duration_ns } => self.durations.push(duration_ns),
            _ => {}
        }
    }

    /// Every look that is due until then.
    fn run_until(&mut self, at: u64) {
        while let Next::At(due) = self.next
            && due <= at * MS
        {
            self.look(due.max(self.now * MS));
        }
        self.now = self.now.max(at);
    }

    /// Nobody runs until then: the process was stopped, or the machine stood still.
    fn stand_still_until(&mut self, at: u64) {
        self.now = at;
    }

    fn tell(&mut self, at: u64, activity: Activity) {
        self.run_until(at);
        let busy = activity.is_busy();
        let (turns, pauses) = self.reading.epoch;
        let silent = self.reading.busy && at * MS - self.reading.since_ns >= Threshold::DEFAULT.interval_ns;
        let silence = if silent { Some((turns, at * MS)) } else { self.reading.silence };
        let wakes = self.next == Next::Park && busy && !self.reading.busy;
        self.reading = Reading { epoch: (turns + 1, pauses), busy, since_ns: at * MS, silence };
        if wakes {
            self.look(at * MS);
        }
    }

    fn freezes(&self) -> String {
        format!("{} freezes", self.freezes)
    }
}

/// Numbers that are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario("1", "a freeze in another observer of BeforeWaiting, ours last", "1 freezes", || {
            let mut world = World::new();
            world.tell(1000, Activity::BeforeSources);
            world.tell(1400, Activity::BeforeWaiting);
            world.run_until(2000);
            world.freezes()
        }),
        scenario("4", "an idle hour: looks of the watcher after the first two", "0 looks", || {
            let mut world = World::new();
            world.tell(1000, Activity::AfterWaiting);
            world.tell(1001, Activity::BeforeWaiting);
            world.run_until(1101);
            let before = world.looks;
            world.run_until(3_600_000);
            format!("{} looks", world.looks - before)
        }),
        scenario("6", "the process stands still for a second in a callback of 100 ms", "0 freezes", || {
            let mut world = World::new();
            world.tell(1000, Activity::AfterWaiting);
            world.run_until(1060);
            world.stand_still_until(2060);
            world.run_until(2090);
            world.tell(2100, Activity::BeforeWaiting);
            world.run_until(4000);
            world.freezes()
        }),
        scenario("6", "a freeze of 400 ms with an hour's sleep in it", "1 freezes, 400 ms", || {
            let mut world = World::new();
            world.tell(1000, Activity::AfterWaiting);
            world.run_until(1100);
            world.stand_still_until(3_601_100);
            world.run_until(3_601_399);
            world.tell(3_601_400, Activity::BeforeWaiting);
            world.run_until(3_603_000);
            let lasted = world.durations.first().map_or(0, |duration| duration / MS);
            // What was missed of the tick in which it fell asleep is not known.
            let near = if (350..=450).contains(&lasted) { 400 } else { lasted };
            format!("{}, {near} ms", world.freezes())
        }),
        scenario(
            "6",
            "a watcher that is late by 10 to 40 ms each time, freeze of 240 ms",
            "0 freezes",
            || {
                let mut world = World::new();
                let mut random = Random(3);
                world.tell(1000, Activity::AfterWaiting);
                while let Next::At(due) = world.next
                    && due < 1200 * MS
                {
                    world.look(due + (10 + random.below(30)) * MS);
                }
                world.now = 1239;
                world.tell(1240, Activity::BeforeWaiting);
                world.run_until(2000);
                world.freezes()
            },
        ),
        scenario(
            "12",
            "announced for 2 s: blocked for 1.9 s, then for 2.6 s",
            "0 freezes, then 1 freezes",
            || {
                let blocked_for = |lasted: u64| {
                    let mut world = World::new();
                    world.tell(1000, Activity::AfterWaiting);
                    world.detector.expect_until(3000 * MS);
                    world.tell(1000 + lasted, Activity::BeforeWaiting);
                    world.run_until(9000);
                    world.freezes()
                };
                format!("{}, then {}", blocked_for(1900), blocked_for(2600))
            },
        ),
        scenario("-", "8 hours of healthy use, the machine stands still at random", "0 freezes", || {
            healthy_hours(8).freezes()
        }),
        scenario("-", "10,000 random freezes", "10000 freezes, 10000 within a tick", || {
            let (freezes, near) = random_freezes(10_000);
            format!("{freezes} freezes, {near} within a tick")
        }),
    ]
}

/// Turns of all lengths below the threshold, waits of all lengths, and now and then nobody runs for up to an hour.
fn healthy_hours(hours: u64) -> World {
    let (mut world, mut random) = (World::new(), Random(42));
    let mut at = 1000;
    let mut stood_still = 0;
    while at - stood_still < hours * 3_600_000 {
        world.tell(at, Activity::AfterWaiting);
        let longest = if random.below(10) == 0 { 249 } else { 20 };
        let turn = 1 + random.below(longest);
        if random.below(500) == 0 {
            let before = random.below(turn + 1);
            world.run_until(at + before);
            let jump = 60 + random.below(3_600_000);
            world.stand_still_until(at + before + jump);
            at += jump;
            stood_still += jump;
            // Either may run first after that.
            if random.below(2) == 0 {
                world.run_until(at + before);
            }
        }
        at += turn;
        // Who looked late has looked by now.
        world.now = world.now.min(at);
        world.tell(at, Activity::BeforeWaiting);
        let longest = if random.below(20) == 0 { 5000 } else { 40 };
        at += 1 + random.below(longest);
    }
    world
}

/// How many of so many freezes were noticed, and of how many the duration is right to one tick. Some have a stop in them.
fn random_freezes(count: u32) -> (u32, usize) {
    let (mut world, mut random) = (World::new(), Random(7));
    let (mut at, mut lengths) = (1000, Vec::new());
    for _ in 0..count {
        let length = 251 + random.below(3000);
        world.tell(at, Activity::AfterWaiting);
        if random.below(20) == 0 {
            let before = random.below(length - 250);
            world.run_until(at + before);
            let jump = 100 + random.below(60_000);
            world.stand_still_until(at + before + jump);
            world.run_until(at + before + jump);
            at += jump;
        }
        world.tell(at + length, Activity::BeforeWaiting);
        lengths.push(length * MS);
        at += length + 110 + random.below(500);
        world.run_until(at);
    }
    let tick = Threshold::DEFAULT.interval_ns;
    let near =
        world.durations.iter().zip(&lengths).filter(|(got, true_one)| got.abs_diff(**true_one) <= tick);
    (world.freezes, near.count())
}
