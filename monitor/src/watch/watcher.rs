//! The watcher's thread.

use super::cpu::CpuWatch;
use super::source::{Control, Source, Watched};
use crate::clock;
use crate::detect::{Detector, Next, Threshold, Verdict};
use crate::ending;
use crate::pressure::{CpuStep, IdleStep, NeverIdle};
use crate::record::{Occasion, Recorder};
use crate::sampler::Silence;
use crate::track::Track;
use freezeframe_report::encode::Strategy;
use freezeframe_report::layout::Outcome;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One loop's watcher, before its thread begins.
pub(crate) struct Watcher<S> {
    pub(crate) source: S,
    pub(crate) control: Arc<Control>,
    pub(crate) recorder: Recorder,
    pub(crate) freezes: Track,
    /// Whether the loop ever waits, if that is watched.
    pub(crate) never_idle: Option<(NeverIdle, Track)>,
    /// The process's CPU time, if that is watched.
    pub(crate) cpu: Option<(CpuWatch, Track)>,
}

impl<S: Source> Watcher<S> {
    /// Gets ready, on the thread that is to watch.
    pub(crate) fn begin(&mut self) {
        self.recorder.begin();
    }

    /// Watches until it is told to stop. What goes on then is closed with an unknown end.
    pub(crate) fn run(mut self) {
        let control = self.control.clone();
        let mut detector = Detector::new(self.threshold());
        loop {
            // Read before the look: what ended before the stop is still seen to have ended.
            let stop = control.stop.load(Ordering::Acquire);
            detector.set_threshold(self.threshold());
            let (expected_until_ns, kept_ns) = control.expected.in_force();
            detector.expect_until(expected_until_ns);
            detector.start_afresh(kept_ns);
            let now = clock::now();
            let mut watched = self.source.read(now);
            watched.reading = control.with_pauses(watched.reading);
            let late_before = detector.late_ticks();
            let step = detector.look(now, watched.reading);
            control.late_ticks.store(detector.late_ticks(), Ordering::Relaxed);
            self.follow(&detector, &watched, now, step.verdict);
            self.look_for_waits(&watched, now, step.verdict, detector.late_ticks() > late_before);
            self.look_at_cpu(now);
            self.source.looked();
            if stop {
                self.close_all(now, detector.frozen_for(now));
                return self.recorder.finish();
            }
            // What all this took is no delay: lateness is measured from here on.
            let waits_from = clock::now();
            detector.wait_from(waits_from);
            self.never_idle.iter_mut().for_each(|(never, _)| never.wait_from(waits_from));
            let by_cpu = self.cpu.as_ref().map(|(cpu, _)| cpu.due_ns());
            let interval = self.threshold().interval_ns;
            match (step.next, by_cpu) {
                (Next::At(time), _) => drop(control.wake.wait_until(time)),
                (Next::Park, None) if self.source.park(&watched) => control.wake.wait(),
                (Next::Park, Some(due)) if self.source.park(&watched) => drop(control.wake.wait_until(due)),
                (Next::Park, _) => drop(control.wake.wait_until(now + interval)),
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

    /// What a verdict on the loop's turning leads to.
    fn follow(&mut self, detector: &Detector, watched: &Watched, now: u64, verdict: Verdict) {
        let Self { source, recorder, freezes, control, .. } = self;
        let still = || source.unchanged(watched);
        let threshold = Threshold {
            interval_ns: control.interval_ns.load(Ordering::Relaxed),
            misses: control.misses.load(Ordering::Relaxed),
        };
        let silence = |silent_ns| Silence {
            silent_ns,
            threshold_ns: threshold.total_ns(),
            late_ticks: detector.late_in_silence(),
            waits: watched.waits,
        };
        match verdict {
            Verdict::Healthy => match detector.silent_for(now) {
                Some(silent_ns) => {
                    let thread = source.thread();
                    freezes.sampler.tick(&mut recorder.capturer, thread, silence(silent_ns), &still);
                }
                None => freezes.sampler.reset(),
            },
            Verdict::Frozen { .. } if ending::has_begun() => {}
            Verdict::Frozen { started_ns, discounted_ns } => {
                control.freezes.fetch_add(1, Ordering::Relaxed);
                let lasted = now.saturating_sub(started_ns).saturating_sub(discounted_ns);
                let occasion = Occasion {
                    strategy: source.strategy(),
                    thread: source.thread(),
                    activity: watched.activity,
                    depth: watched.depth,
                    started_ns,
                    discounted_ns,
                    detected_ns: now,
                    interval_ns: threshold.interval_ns,
                    misses: threshold.misses,
                    silence: silence(lasted),
                };
                recorder.open(freezes, occasion, &still);
            }
            Verdict::StillFrozen { duration_ns } => {
                let silence = silence(duration_ns);
                let thread = source.thread();
                let learned = freezes.sampler.tick(&mut recorder.capturer, thread, silence, &still);
                let learned = freezes.note_late(silence.late_ticks) || learned;
                recorder.go_on(freezes, duration_ns, learned, &still);
            }
            Verdict::Recovered { duration_ns } => recorder.close(freezes, duration_ns, Outcome::Recovered),
            Verdict::Lost { duration_ns } => recorder.close(freezes, duration_ns, source.outcome()),
        }
    }

    /// Whether the loop turns without ever waiting. A freeze is no such thing, and neither is time that nobody has watched.
    fn look_for_waits(&mut self, watched: &Watched, now: u64, verdict: Verdict, late: bool) {
        let Self { source, recorder, never_idle, control, .. } = self;
        let (Some((never, track)), Some(waited_ns)) = (never_idle, watched.waited_ns) else { return };
        let expected = now < control.expected.in_force().0;
        let paused = expected || control.pauses.load(Ordering::Acquire) > 0;
        if late || paused || verdict != Verdict::Healthy {
            if let Some(duration_ns) = never.start_afresh(now) {
                recorder.close(track, duration_ns, Outcome::Unknown);
            }
            return;
        }
        let limit_ns = never.limit_ns();
        let silence = |silent_ns| Silence { silent_ns, threshold_ns: limit_ns, late_ticks: 0, waits: None };
        let (thread, still) = (source.thread(), || true);
        match never.look(now, waited_ns) {
            IdleStep::Fine(busy_ns) if busy_ns >= limit_ns / 2 => {
                track.sampler.tick(&mut recorder.capturer, thread, silence(busy_ns), &still);
            }
            IdleStep::Fine(_) => track.sampler.reset(),
            IdleStep::Began { since_ns } => {
                control.never_idle.fetch_add(1, Ordering::Relaxed);
                let occasion = Occasion {
                    strategy: source.strategy(),
                    thread,
                    activity: watched.activity,
                    depth: watched.depth,
                    started_ns: since_ns,
                    discounted_ns: 0,
                    detected_ns: now,
                    interval_ns: limit_ns,
                    misses: 1,
                    silence: silence(now.saturating_sub(since_ns)),
                };
                recorder.open(track, occasion, &still);
            }
            IdleStep::Lasts { duration_ns } => {
                let learned =
                    track.sampler.tick(&mut recorder.capturer, thread, silence(duration_ns), &still);
                recorder.go_on(track, duration_ns, learned, &still);
            }
            IdleStep::Ended { duration_ns } => recorder.close(track, duration_ns, Outcome::Recovered),
        }
    }

    /// Whether the process takes much of the processors.
    fn look_at_cpu(&mut self, now: u64) {
        let Self { source, recorder, cpu, control, .. } = self;
        let Some((cpu, track)) = cpu.as_mut().filter(|(cpu, _)| now >= cpu.due_ns()) else { return };
        match cpu.look(now) {
            CpuStep::Fine | CpuStep::Tracked => {}
            CpuStep::Began { since_ns, cpu_ns } => {
                control.cpu_high.fetch_add(1, Ordering::Relaxed);
                let lasted = now.saturating_sub(since_ns);
                let (busiest, finding) = cpu.busiest(cpu_ns, lasted);
                track.found = Some(finding);
                let silence = Silence { silent_ns: lasted, threshold_ns: lasted, late_ticks: 0, waits: None };
                let occasion = Occasion {
                    strategy: Strategy::CpuTime,
                    thread: busiest.unwrap_or_else(|| source.thread()),
                    activity: 0,
                    depth: 0,
                    started_ns: since_ns,
                    discounted_ns: 0,
                    detected_ns: now,
                    interval_ns: cpu.limit().for_ns,
                    misses: 1,
                    silence,
                };
                recorder.open(track, occasion, &|| true);
            }
            CpuStep::Lasts { duration_ns } => recorder.go_on(track, duration_ns, false, &|| true),
            CpuStep::Ended { duration_ns } => recorder.close(track, duration_ns, Outcome::Recovered),
        }
    }

    fn close_all(&mut self, now: u64, frozen_ns: u64) {
        self.recorder.close(&mut self.freezes, frozen_ns, self.source.outcome());
        let others = self.never_idle.iter_mut().map(|(_, track)| track);
        for track in others.chain(self.cpu.iter_mut().map(|(_, track)| track)) {
            let started = track.open.as_ref().map_or(now, |open| open.occasion.started_ns);
            self.recorder.close(track, now.saturating_sub(started), Outcome::Unknown);
        }
    }
}
