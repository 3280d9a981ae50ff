//! Random clocks and transitions: never a verdict before the threshold, one freeze at a time, and none is missed.

use super::source::Source;
use freezeframe_monitor::{Detector, Next, Reading, Threshold, Verdict};

/// The first byte: 1 the watcher looks when it was told to, else at any time.
pub fn detector(bytes: &[u8]) {
    let mut source = Source(bytes);
    let flags = source.u8();
    let threshold =
        Threshold { interval_ns: 1 + u64::from(source.u8()), misses: 1 + u32::from(source.u8() % 8) };
    if flags & 1 == 0 { any_looks(&mut source, threshold) } else { due_looks(&mut source, threshold) }
}

/// Steps of three bytes: what happens, and how much later.
fn any_looks(source: &mut Source<'_>, threshold: Threshold) {
    let mut now = u64::from(source.u16());
    let mut watched = Watched::new(threshold, now);
    while !source.0.is_empty() {
        let (event, later) = (source.u8(), source.u16());
        now += u64::from(later);
        match event % 8 {
            0 | 4 => watched.transition(now, event & 8 != 0),
            1 => watched.reading.busy = false,
            5 => watched.resume(now),
            _ => {}
        }
        watched.look(now);
    }
}

/// The loop turns at random times, and the watcher looks when it is due, late by less than a timeout: whatever was silent
/// for the threshold and that lateness is a freeze.
fn due_looks(source: &mut Source<'_>, threshold: Threshold) {
    let mut watched = Watched::new(threshold, 0);
    let mut next = watched.look(0);
    let mut now = 0;
    while !source.0.is_empty() {
        let (silent, busy, late) = (u64::from(source.u16()), source.u8() & 1 != 0, u64::from(source.u8()));
        let late = late % threshold.interval_ns;
        // Twice the longest threshold: more only takes more time.
        let silent = silent % (16 * threshold.interval_ns);
        let (begun, was_busy, before) = (now, watched.reading.busy, watched.freezes);
        now += silent;
        let mut looks = 0;
        while let Next::At(due) = next
            && due.max(begun) + late < now
        {
            next = watched.look(due.max(begun) + late);
            looks += 1;
        }
        assert!(looks <= silent / threshold.interval_ns + 2, "no more than a look in a timeout");
        let frozen = watched.freezes - before;
        if was_busy && silent > threshold.total_ns() + late {
            // The look that is due at the threshold has been.
            assert_eq!(frozen, 1, "silent for {silent}, {threshold:?}, looks late by {late}");
        }
        if !was_busy || silent < threshold.total_ns() {
            assert_eq!(frozen, 0, "silent for {silent}, {threshold:?}");
        }
        let parked = next == Next::Park;
        watched.transition(now, busy);
        if parked && busy {
            next = watched.look(now);
        }
    }
}

/// A detector, what it reads, and what it has said.
struct Watched {
    threshold: Threshold,
    detector: Detector,
    reading: Reading,
    frozen: bool,
    freezes: u32,
}

impl Watched {
    fn new(threshold: Threshold, now: u64) -> Self {
        let reading = Reading { epoch: (0, 0), busy: false, since_ns: now, silence: None };
        Self { threshold, detector: Detector::new(threshold), reading, frozen: false, freezes: 0 }
    }

    fn transition(&mut self, now: u64, busy: bool) {
        let reading = self.reading;
        let long = reading.busy && now - reading.since_ns >= self.threshold.interval_ns;
        let silence = if long { Some((reading.epoch.0, now)) } else { reading.silence };
        let epoch = (reading.epoch.0 + 1, reading.epoch.1);
        self.reading = Reading { epoch, busy, since_ns: now, silence };
    }

    /// After a pause the time starts afresh.
    fn resume(&mut self, now: u64) {
        self.reading.epoch.1 += 1;
        self.reading.since_ns = now;
    }

    fn look(&mut self, now: u64) -> Next {
        let (threshold, reading) = (self.threshold, self.reading);
        let step = self.detector.look(now, reading);
        match step.verdict {
            Verdict::Healthy => assert!(!self.frozen, "a freeze ends in a verdict"),
            Verdict::Frozen { started_ns, discounted_ns } => {
                assert!(!self.frozen, "one verdict a freeze");
                assert!(reading.busy, "a loop that waits is not frozen");
                assert_eq!(started_ns, reading.since_ns);
                let counted = now - started_ns - discounted_ns;
                assert!(counted >= threshold.total_ns(), "{counted} of {}", threshold.total_ns());
                self.frozen = true;
                self.freezes += 1;
            }
            Verdict::StillFrozen { duration_ns } => {
                assert!(self.frozen && duration_ns >= threshold.total_ns());
                assert_eq!(duration_ns, self.detector.frozen_for(now));
            }
            Verdict::Recovered { duration_ns } | Verdict::Lost { duration_ns } => {
                assert!(std::mem::replace(&mut self.frozen, false), "only a freeze can end");
                assert!(duration_ns >= threshold.total_ns(), "a freeze of {duration_ns}");
            }
        }
        if let Next::At(next) = step.next {
            assert!(next <= now.saturating_add(threshold.interval_ns), "a look at least once in a timeout");
        }
        step.next
    }
}
