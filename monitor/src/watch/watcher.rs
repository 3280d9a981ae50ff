//! The watcher's thread.

use super::source::{Control, Source, Watched};
use crate::clock;
use crate::detect::{Detector, Next, Threshold, Verdict};
use crate::ending::PROCESS_ENDS;
use crate::freeze::{Freeze, Phase};
use crate::record::Recorder;
use freezeframe_report::encode::AppState;
use freezeframe_report::layout::Outcome;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What the program wants to hear of freezes.
pub(crate) type Callback = Box<dyn FnMut(&Freeze<'_>) + Send>;

/// One loop's watcher, before its thread begins.
pub(crate) struct Watcher<S> {
    pub(crate) source: S,
    pub(crate) control: Arc<Control>,
    pub(crate) component: Arc<str>,
    pub(crate) recorder: Recorder,
    pub(crate) callback: Option<Callback>,
}

impl<S: Source> Watcher<S> {
    /// Gets ready, on the thread that is to watch.
    pub(crate) fn begin(&mut self) {
        self.recorder.begin();
    }

    /// Watches until it is told to stop. A freeze that goes on then is closed with an unknown end.
    pub(crate) fn run(mut self) {
        let control = self.control.clone();
        let mut detector = Detector::new(self.threshold());
        loop {
            // Read before the look: what ended before the stop is still seen to have ended.
            let stop = control.stop.load(Ordering::Acquire);
            detector.set_threshold(self.threshold());
            let now = clock::now();
            let mut watched = self.source.read(now);
            watched.reading = control.with_pauses(watched.reading);
            let step = detector.look(now, watched.reading);
            control.late_ticks.store(detector.late_ticks(), Ordering::Relaxed);
            match step.verdict {
                Verdict::Healthy => {}
                Verdict::Frozen { .. } if PROCESS_ENDS.load(Ordering::Acquire) => {}
                Verdict::Frozen { started_ns, discounted_ns } => {
                    control.freezes.fetch_add(1, Ordering::Relaxed);
                    self.freeze(&watched, now, started_ns, discounted_ns);
                }
                Verdict::StillFrozen { duration_ns } => self.recorder.update(duration_ns),
                Verdict::Recovered { duration_ns } => self.ended(Phase::Recovered, duration_ns),
                Verdict::Lost { duration_ns } => self.ended(Phase::Lost, duration_ns),
            }
            if stop {
                return self.ended(Phase::Lost, detector.frozen_for(now));
            }
            match step.next {
                Next::At(time) => drop(control.wake.wait_until(time)),
                Next::Park if self.source.park(&watched) => control.wake.wait(),
                Next::Park => drop(control.wake.wait_until(now + self.threshold().interval_ns)),
            }
            control.wakeups.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn threshold(&self) -> Threshold {
        Threshold {
            interval_ns: self.control.interval_ns.load(Ordering::Relaxed),
            misses: self.control.misses.load(Ordering::Relaxed),
        }
    }

    fn freeze(&mut self, watched: &Watched, now: u64, started_ns: u64, discounted_ns: u64) {
        let threshold = self.threshold();
        let source = &self.source;
        let record = self.recorder.record(crate::record::Cause {
            strategy: source.strategy(),
            thread: source.thread(),
            activity: watched.activity,
            started_ns,
            discounted_ns,
            detected_ns: now,
            threshold,
            late_ticks: self.control.late_ticks.load(Ordering::Relaxed),
            wakeups: self.control.wakeups.load(Ordering::Relaxed),
            app_state: AppState::from_code(self.control.app_state.load(Ordering::Relaxed)),
            still: &|| source.unchanged(watched),
        });
        let lasted = now.saturating_sub(started_ns).saturating_sub(discounted_ns);
        let delay = lasted.saturating_sub(threshold.total_ns());
        self.tell(&Freeze {
            component: &self.component.clone(),
            phase: Phase::Detected,
            duration: Duration::from_nanos(lasted),
            detection_delay: Duration::from_nanos(delay),
            record,
        });
    }

    /// Closes the freeze that goes on, if one does.
    fn ended(&mut self, phase: Phase, duration_ns: u64) {
        let outcome = if phase == Phase::Recovered { Outcome::Recovered } else { Outcome::Unknown };
        let Some(record) = self.recorder.close(duration_ns, outcome) else { return };
        self.tell(&Freeze {
            component: &self.component.clone(),
            phase,
            duration: Duration::from_nanos(duration_ns),
            detection_delay: Duration::ZERO,
            record,
        });
    }

    /// A panic in the program's callback is the callback's: the watcher goes on without it.
    fn tell(&mut self, freeze: &Freeze<'_>) {
        let Some(callback) = &mut self.callback else { return };
        let call = std::panic::AssertUnwindSafe(|| callback(freeze));
        if std::panic::catch_unwind(call).is_err() {
            self.callback = None;
        }
    }
}
