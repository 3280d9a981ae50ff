//! The state machine.
//!
//! ```text
//!   last transition                                                       the fifth miss: frozen
//!      │←─ interval ─→│              │              │              │              │
//! ─────┼──────────────┼──────────────┼──────────────┼──────────────┼──────────────┼────────▶ time
//!      since          tick 1         tick 2         tick 3         tick 4         tick 5
//! ```
//!
//! Ticks are aligned on the last transition, so that the last miss falls exactly on the threshold after it: never
//! earlier, and only as much later as the watcher wakes up late.

/// What the watcher's own work takes at most, from one look to the next. Longer than that, it was stopped in the middle of it.
const WORK_AT_MOST_NS: u64 = 500_000_000;

/// What counts as a freeze: `misses` timeouts of `interval_ns` in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// One timeout, in nanoseconds.
    pub interval_ns: u64,
    /// How many in a row.
    pub misses: u32,
}

impl Threshold {
    /// Five timeouts of 50 ms.
    pub const DEFAULT: Self = Self { interval_ns: 50_000_000, misses: 5 };

    /// The time from the last transition to the verdict, in nanoseconds.
    pub const fn total_ns(self) -> u64 {
        self.interval_ns.saturating_mul(self.misses as u64)
    }
}

/// What a watcher sees of a loop when it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// How often the loop has turned: changes with every transition. The second number changes with every resumption
    /// after a pause.
    pub epoch: (u64, u64),
    /// Whether the loop should soon reach its next transition: it neither waits nor is it paused.
    pub busy: bool,
    /// When the last transition was.
    pub since_ns: u64,
    /// The latest long silence that is over: the loop's epoch (the first number) in which it was, and when it ended.
    /// Without it the end of a freeze is known to one tick only.
    pub silence: Option<(u64, u64)>,
}

/// What a look has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The loop turns, or waits, or has not been silent for long enough.
    Healthy,
    /// A freeze has begun: so much time after the last sign of life.
    Frozen {
        /// The last sign of life.
        started_ns: u64,
        /// Time since then that does not count, because the watcher itself was stopped or starved.
        discounted_ns: u64,
    },
    /// The freeze goes on, and has lasted that long.
    StillFrozen {
        /// Its duration so far.
        duration_ns: u64,
    },
    /// The loop has turned again.
    Recovered {
        /// How long the freeze had lasted: to the transition that ended it.
        duration_ns: u64,
    },
    /// The loop is not watched any more; nobody knows how the freeze ends.
    Lost {
        /// How long it had lasted.
        duration_ns: u64,
    },
}

/// When to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At this time.
    At(u64),
    /// When the loop leaves its wait: it has waited for a whole tick.
    Park,
}

/// The outcome of one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it has shown.
    pub verdict: Verdict,
    /// When to look again.
    pub next: Next,
}

/// Decides whether a loop is frozen.
///
/// ```
/// use freezeframe_monitor::{Detector, Next, Reading, Threshold, Verdict};
/// let mut detector = Detector::new(Threshold { interval_ns: 50, misses: 2 });
/// let busy = Reading { epoch: (1, 0), busy: true, since_ns: 1000, silence: None };
/// assert_eq!(detector.look(1000, busy).next, Next::At(1050));
/// assert_eq!(detector.look(1050, busy).verdict, Verdict::Healthy, "one miss");
/// assert_eq!(detector.look(1100, busy).verdict, Verdict::Frozen { started_ns: 1000, discounted_ns: 0 });
/// let turned = Reading { epoch: (9, 0), busy: true, since_ns: 1149, silence: Some((1, 1120)) };
/// assert_eq!(detector.look(1150, turned).verdict, Verdict::Recovered { duration_ns: 120 });
/// ```
#[derive(Debug)]
pub struct Detector {
    threshold: Threshold,
    epoch: Option<(u64, u64)>,
    /// When the epoch began.
    since_ns: u64,
    /// The next tick.
    due_ns: u64,
    misses: u32,
    discounted_ns: u64,
    frozen: bool,
    late_ticks: u64,
    /// Those of the epoch.
    late_in_epoch: u64,
    /// Whether the last look has found the loop busy, in the epoch that was known.
    silent: bool,
    /// No freeze is one before this time: the program has announced that it would block.
    expected_until_ns: u64,
    /// Time before this does not count.
    afresh_ns: u64,
    /// When the watcher had done its work and began to wait.
    waits_from_ns: u64,
}

impl Detector {
    /// A detector that has seen nothing yet.
    pub const fn new(threshold: Threshold) -> Self {
        Self {
            threshold,
            epoch: None,
            since_ns: 0,
            due_ns: 0,
            misses: 0,
            discounted_ns: 0,
            frozen: false,
            late_ticks: 0,
            late_in_epoch: 0,
            silent: false,
            expected_until_ns: 0,
            afresh_ns: 0,
            waits_from_ns: 0,
        }
    }

    /// How long the loop has been silent, as of the last look at `now_ns`: time that counts. None if it has turned, or waits,
    /// or has not missed a tick yet.
    pub const fn silent_for(&self, now_ns: u64) -> Option<u64> {
        if self.silent && (self.misses > 0 || self.late_in_epoch > 0) {
            Some(self.lasted(now_ns))
        } else {
            None
        }
    }

    /// Ticks that came too late since the last sign of life.
    pub const fn late_in_silence(&self) -> u64 {
        self.late_in_epoch
    }

    /// The program expects to block until this time: before it nothing is a freeze. Zero: it does not.
    pub const fn expect_until(&mut self, until_ns: u64) {
        self.expected_until_ns = until_ns;
    }

    /// Time before `at_ns` does not count: what the program had announced came to its end in time. A freeze that goes on is
    /// one all the same.
    pub const fn start_afresh(&mut self, at_ns: u64) {
        self.afresh_ns = at_ns;
    }

    /// The watcher has done its work and begins to wait: the next look is late only if it is so from here on. While the watcher
    /// worked nobody was stopped, and the loop's silence counts.
    pub const fn wait_from(&mut self, now_ns: u64) {
        self.waits_from_ns = now_ns;
    }

    /// Ticks that came so late that they said nothing of the loop: the whole process was stopped, or starved.
    pub const fn late_ticks(&self) -> u64 {
        self.late_ticks
    }

    /// Changes what counts as a freeze: at once if ticks become shorter, from the next one on if they become longer.
    pub const fn set_threshold(&mut self, threshold: Threshold) {
        // A tick that goes on ends as early as if it had begun so.
        let shorter_ns = self.threshold.interval_ns.saturating_sub(threshold.interval_ns);
        self.due_ns = self.due_ns.saturating_sub(shorter_ns);
        self.threshold = threshold;
    }

    /// How long the freeze that goes on has lasted; zero if none does.
    pub const fn frozen_for(&self, now_ns: u64) -> u64 {
        if self.frozen { self.lasted(now_ns) } else { 0 }
    }

    /// One look at the loop, at the time `now_ns`.
    pub fn look(&mut self, now_ns: u64, reading: Reading) -> Step {
        let interval = self.threshold.interval_ns.max(1);
        self.silent = self.epoch == Some(reading.epoch) && reading.busy;
        if self.epoch != Some(reading.epoch) {
            let end_ns = match (self.epoch, reading.silence) {
                (Some((epoch, _)), Some((silent, end_ns))) if silent == epoch => end_ns,
                _ => reading.since_ns,
            };
            // A look that comes late itself: the time since it could have come does not count.
            let possible_ns = self.possible_ns();
            if self.frozen && now_ns.saturating_sub(possible_ns) >= interval {
                self.late_ticks += 1;
                self.discounted_ns = self.discounted_ns.saturating_add(end_ns.saturating_sub(possible_ns));
            }
            let verdict = self.ended(Verdict::Recovered { duration_ns: self.lasted(end_ns) });
            self.epoch = Some(reading.epoch);
            self.count_from(if reading.since_ns > self.afresh_ns {
                reading.since_ns
            } else {
                self.afresh_ns
            });
            return Step { verdict, next: Next::At(self.due_ns) };
        }
        if !reading.busy {
            // No transition, and yet not busy any more: it was paused.
            let verdict = self.ended(Verdict::Lost { duration_ns: self.lasted(now_ns) });
            let next = if now_ns >= self.due_ns { Next::Park } else { Next::At(self.due_ns) };
            return Step { verdict, next };
        }
        if !self.frozen && self.afresh_ns > self.since_ns {
            self.silent = false;
            self.count_from(self.afresh_ns);
            return Step { verdict: Verdict::Healthy, next: Next::At(self.due_ns) };
        }
        let late_ns = now_ns.saturating_sub(self.possible_ns());
        if now_ns >= self.due_ns && late_ns >= interval {
            // Whether the loop could have turned in this time is not known. What was missed before still counts.
            self.late_ticks += 1;
            self.late_in_epoch += 1;
            self.discounted_ns = self.discounted_ns.saturating_add(late_ns);
            self.due_ns = now_ns.saturating_add(interval);
            return Step { verdict: self.going_on(now_ns), next: Next::At(self.due_ns) };
        }
        if now_ns >= self.due_ns {
            self.misses = self.misses.saturating_add(1);
            self.due_ns = self.due_ns.saturating_add(interval);
        }
        let (missed, expected) = (self.misses >= self.threshold.misses, now_ns < self.expected_until_ns);
        if missed && !expected && !self.frozen {
            self.frozen = true;
            let verdict = Verdict::Frozen { started_ns: self.since_ns, discounted_ns: self.discounted_ns };
            return Step { verdict, next: Next::At(self.due_ns) };
        }
        // What lasts longer than was announced is a freeze from there on, not from the next tick.
        let next_ns = if missed && expected && self.expected_until_ns < self.due_ns {
            self.expected_until_ns
        } else {
            self.due_ns
        };
        Step { verdict: self.going_on(now_ns), next: Next::At(next_ns) }
    }

    /// The silence is counted from here on.
    const fn count_from(&mut self, since_ns: u64) {
        (self.since_ns, self.due_ns) = (since_ns, since_ns.saturating_add(self.threshold.interval_ns));
        (self.misses, self.discounted_ns, self.late_in_epoch) = (0, 0, 0);
    }

    /// When the look that is due could have come: not before the watcher had done its work.
    const fn possible_ns(&self) -> u64 {
        let at_most = self.due_ns.saturating_add(WORK_AT_MOST_NS);
        let ready = if self.waits_from_ns < at_most { self.waits_from_ns } else { at_most };
        if ready > self.due_ns { ready } else { self.due_ns }
    }

    /// The time from the start of the epoch that counts.
    const fn lasted(&self, until_ns: u64) -> u64 {
        until_ns.saturating_sub(self.since_ns).saturating_sub(self.discounted_ns)
    }

    const fn going_on(&self, now_ns: u64) -> Verdict {
        if self.frozen { Verdict::StillFrozen { duration_ns: self.lasted(now_ns) } } else { Verdict::Healthy }
    }

    const fn ended(&mut self, how: Verdict) -> Verdict {
        if std::mem::replace(&mut self.frozen, false) { how } else { Verdict::Healthy }
    }
}
