//! Random clocks and transitions: never a verdict before the threshold, and one freeze at a time.

use super::Source;
use freezeframe_monitor::{Detector, Next, Reading, Threshold, Verdict};

/// Steps of three bytes: what happens, and how much later.
pub fn detector(bytes: &[u8]) {
    let mut source = Source(bytes);
    let threshold =
        Threshold { interval_ns: 1 + u64::from(source.u8()), misses: 1 + u32::from(source.u8() % 8) };
    let mut detector = Detector::new(threshold);
    let mut now = u64::from(source.u16());
    let mut reading = Reading { epoch: (0, 0), busy: false, since_ns: now, silence: None };
    let mut frozen = false;
    while !source.0.is_empty() {
        let (event, later) = (source.u8(), source.u16());
        now += u64::from(later);
        match event % 4 {
            0 => {
                let silence = Some((reading.epoch.0, now)).filter(|_| reading.busy);
                let epoch = (reading.epoch.0 + 1, reading.epoch.1);
                let busy = event & 4 != 0;
                reading = Reading { epoch, busy, since_ns: now, silence: silence.or(reading.silence) };
            }
            1 => reading.busy = false,
            _ => {}
        }
        let step = detector.look(now, reading);
        match step.verdict {
            Verdict::Healthy => assert!(!frozen, "a freeze ends in a verdict"),
            Verdict::Frozen { started_ns, discounted_ns } => {
                assert!(!frozen, "one verdict a freeze");
                assert_eq!(started_ns, reading.since_ns);
                let counted = now - started_ns - discounted_ns;
                assert!(counted >= threshold.total_ns(), "{counted} of {}", threshold.total_ns());
                frozen = true;
            }
            Verdict::StillFrozen { duration_ns } => {
                assert!(frozen && duration_ns >= threshold.total_ns());
            }
            Verdict::Recovered { .. } | Verdict::Lost { .. } => {
                assert!(std::mem::replace(&mut frozen, false), "only a freeze can end");
            }
        }
        if let Next::At(next) = step.next {
            assert!(next <= now.saturating_add(threshold.interval_ns), "a look at least once in a timeout");
        }
    }
}
