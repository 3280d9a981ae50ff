//! From a verdict to a record in the file.

use crate::capture::Capturer;
use crate::clock;
use crate::episode::{Annealing, DailyCap, SeverityLimits};
use crate::facts::{Facts, Moment};
use crate::freeze::{Candidate, Heard, Phase};
use crate::hooks::{Answer, Crumbs, Hooks, Values};
use crate::sampler::Silence;
use crate::subject;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::track::{Open, Track};
use crate::vitals::{AtDetection, Frames};
use crate::watch::Control;
use freezeframe_report::encode::{
    About, AppState, Cause, Crumb, Episode, Kind, Severity, Strategy, Told, encode, encode_tail, labels,
};
use freezeframe_report::file::ReportFile;
use freezeframe_report::layout::Outcome;
use freezeframe_report::ring::{Live, Slot};
use freezeframe_unwind::threads::ThreadId;
use std::sync::Arc;
use std::time::Duration;

/// Why and of what a record is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occasion {
    pub(crate) strategy: Strategy,
    pub(crate) thread: ThreadId,
    pub(crate) activity: u8,
    pub(crate) depth: u32,
    pub(crate) started_ns: u64,
    pub(crate) discounted_ns: u64,
    pub(crate) detected_ns: u64,
    pub(crate) interval_ns: u64,
    pub(crate) misses: u32,
    pub(crate) silence: Silence,
}

/// What the program has set.
pub(crate) struct Settings {
    pub(crate) app: String,
    pub(crate) version: String,
    pub(crate) limits: SeverityLimits,
    pub(crate) cap: DailyCap,
    /// Whether each freeze gets a record of its own, however often its stack was met.
    pub(crate) record_repeats: bool,
    /// What the program draws, if it says so.
    pub(crate) frames: Option<Frames>,
}

/// A record that later freezes with the same stack are counted in.
struct Kept {
    slot: Slot,
    live: Live,
}

/// Bytes that a record leaves free for each of the two places of its tail, if its slot has as many to spare.
const TAIL: usize = 20 << 10;

/// Takes the stacks and writes the record. All of its memory is there from the start.
pub(crate) struct Recorder {
    pub(crate) capturer: Capturer,
    component: Arc<str>,
    settings: Settings,
    facts: Facts,
    vitals: AtDetection,
    /// Records are made here first: writing to a file can wait for the file system.
    staging: Vec<u8>,
    tail: Vec<u8>,
    file: Option<Arc<ReportFile>>,
    annealing: Annealing<Kept>,
    control: Arc<Control>,
    hooks: Hooks,
}

impl Recorder {
    pub(crate) fn new(
        component: Arc<str>,
        mut settings: Settings,
        facts: Facts,
        capturer: Capturer,
        file: Option<Arc<ReportFile>>,
        control: Arc<Control>,
        hooks: Hooks,
    ) -> Self {
        let bytes = file.as_ref().map_or(0, |file| file.ring().record_bytes());
        let tail = TAIL.min(bytes / 8);
        // Not zeros: those would be pages that are not there yet.
        let (staging, tail) = (vec![0xff; bytes - 2 * tail], vec![0xff; tail]);
        let annealing = Annealing::new();
        let vitals = AtDetection::new(capturer.subject, settings.frames.take());
        Self { capturer, component, settings, facts, vitals, staging, tail, file, annealing, control, hooks }
    }

    /// To be called on the watcher's thread before it watches.
    pub(crate) fn begin(&mut self) {
        self.capturer.begin(self.hooks.id);
    }

    /// Everything was said: waits for the program's closures.
    pub(crate) fn finish(self) {
        self.hooks.finish();
    }

    /// Begins an episode that has just been detected: takes the stacks, decides whether it gets a record, writes it, and tells
    /// the program. `still` says whether it goes on.
    pub(crate) fn open(&mut self, track: &mut Track, occasion: Occasion, still: &dyn Fn() -> bool) {
        let captured = self.capture(&occasion, still);
        track.sampler.learn(&mut self.capturer, occasion.silence);
        let lasted = occasion.silence.silent_ns;
        track.sampler.weigh(lasted);
        let cause = track.finding().cause;
        let mut open = Open::new(occasion, self.settings.limits.of(lasted));
        open.labels = self.labels(&occasion);
        if let Some(why) = self.control.expected.reason(occasion.started_ns) {
            (open.expected, open.labels) = (why, open.labels | labels::EXPECTED);
        }
        let answer = self.hooks.ask(candidate(track.kind, lasted, open.severity, cause));
        track.open = Some(open);
        if cause == Cause::Idle {
            count(&self.control.false_alarms);
        }
        if is_wanted(&answer) {
            self.admit(track, lasted, answer, captured);
        }
    }

    /// The program wants an open episode: decides whether it gets a record, writes that, and tells the program that it has begun.
    fn admit(
        &mut self,
        track: &mut Track,
        lasted_ns: u64,
        answer: Option<Answer>,
        captured: Result<(), String>,
    ) {
        let stack = track.sampler.heaviest().map(|stack| stack ^ (track.kind as u64) << 56);
        let own = self.settings.record_repeats || stack.is_none_or(|stack| self.gets_record(stack));
        // A false alarm is recorded, but nobody is bothered with it.
        let told = track.finding().cause != Cause::Idle;
        let Some(open) = &mut track.open else { return };
        (open.wanted, open.told, open.stack) = (true, told, stack);
        let occasion = open.occasion;
        if !own {
            self.count_in_earlier(track, true, 0);
        } else if let Err(error) = captured.and_then(|()| self.write(track, answer)) {
            track.open.iter_mut().for_each(|open| open.heard = Err(error.clone()));
        }
        self.store(track, lasted_ns, Outcome::Ongoing, true);
        let total = occasion.interval_ns.saturating_mul(occasion.misses.into());
        self.tell(track, Phase::Detected, lasted_ns, occasion.silence.silent_ns.saturating_sub(total));
    }

    /// An episode that the program did not want is more severe by now: asks again.
    fn ask_again(&mut self, track: &mut Track, lasted_ns: u64, still: &dyn Fn() -> bool) {
        let Some(open) = &track.open else { return };
        let (occasion, severity) = (open.occasion, open.severity);
        let answer = self.hooks.ask(candidate(track.kind, lasted_ns, severity, track.finding().cause));
        if is_wanted(&answer) {
            let captured = if self.file.is_some() { self.capture(&occasion, still) } else { Ok(()) };
            track.sampler.weigh(lasted_ns);
            self.admit(track, lasted_ns, answer, captured);
        }
    }

    /// Whether a freeze with this stack gets a record of its own: it is its turn, or there is none to count it in.
    fn gets_record(&mut self, stack: u64) -> bool {
        let is_its_turn = self.annealing.meet(stack);
        let held = |file: &ReportFile, kept: &Kept| file.ring().holds(&kept.slot);
        let earlier = self.annealing.record(stack);
        is_its_turn || !self.file.as_ref().zip(earlier).is_some_and(|(file, kept)| held(file, kept))
    }

    fn capture(&mut self, occasion: &Occasion, still: &dyn Fn() -> bool) -> Result<(), String> {
        let Some(file) = &self.file else {
            self.capturer.one(occasion.thread, still);
            return Ok(());
        };
        let usable = file.check().map_err(|error| error.to_string());
        let refreshed = self.capturer.refresh();
        self.capturer.all(occasion.thread, still)?;
        if self.capturer.images.images().is_empty() {
            refreshed.map_err(|error| error.to_string())?;
        }
        usable
    }

    fn labels(&self, occasion: &Occasion) -> u32 {
        let label = |holds: bool, label: u32| if holds { label } else { 0 };
        let traced = subject::is_traced(self.capturer.subject);
        label(occasion.depth > 1, labels::NESTED)
            | label(occasion.discounted_ns > 0, labels::STOPPED)
            | label(self.app_state() == AppState::Background, labels::BACKGROUND)
            | label(traced, labels::DEBUGGED)
    }

    fn app_state(&self) -> AppState {
        AppState::from_code(self.control.app_state.load(Ordering::Relaxed))
    }

    /// Writes the record of an open episode, of what was captured just now.
    fn write(&mut self, track: &mut Track, answer: Option<Answer>) -> Result<(), String> {
        let (Some(file), Some(open)) = (&self.file, &mut track.open) else { return Ok(()) };
        let (moment, now, occasion) = (Moment::read(self.capturer.subject), clock::now(), &open.occasion);
        self.facts.look_again();
        if !self.settings.cap.pass(clock::continuous()) {
            count(&self.control.capped);
            return Ok(());
        }
        // A frozen loop draws nothing: what it drew before says more.
        let drawn_until_ns =
            if track.kind == Kind::Freeze { occasion.started_ns } else { occasion.detected_ns };
        let values = answer.map_or_else(Values::default, |answer| answer.values);
        let mut pairs = [("", ""); Values::MAX];
        let pairs = fill(&mut pairs, values.iter());
        let crumbs = self.control.crumbs.try_lock().map_or_else(|_| Crumbs::default(), |crumbs| *crumbs);
        let mut kept = [Crumb { at_ns: 0, component: "", text: "" }; Crumbs::MAX];
        let crumbs = fill(&mut kept, crumbs.iter(&self.component));
        let about = About {
            uuid: *uuid::Uuid::new_v4().as_bytes(),
            kind: track.kind,
            strategy: occasion.strategy,
            crash: None,
            component: &self.component,
            activity: occasion.activity,
            wall_ns: clock::wall().saturating_sub(now.saturating_sub(occasion.detected_ns)),
            started_ns: occasion.started_ns,
            detected_ns: occasion.detected_ns,
            continuous_ns: moment.continuous(occasion.detected_ns),
            discounted_ns: occasion.discounted_ns,
            interval_ns: occasion.interval_ns,
            misses: occasion.misses,
            late_ticks: self.control.late_ticks.load(Ordering::Relaxed),
            wakeups: self.control.wakeups.load(Ordering::Relaxed),
            boot_id: self.facts.owner.boot_id,
            process: self.facts.process(
                &self.settings.app,
                &self.settings.version,
                AppState::from_code(self.control.app_state.load(Ordering::Relaxed)),
                &moment,
            ),
            system: self.facts.system(),
            told: Told { values: pairs, crumbs },
            vitals: Some(self.vitals.read(track.sampler.process_cpu(), drawn_until_ns)),
        };
        let encoded = encode(&mut self.staging, &about, &self.capturer.view(), &self.capturer.images);
        let record = self.staging.get(..encoded.bytes).unwrap_or(&[]);
        let slot = file.ring().write(record).map_err(|error| error.to_string())?;
        open.heard = Ok(Some(slot.sequence()));
        open.slot = Some(slot);
        Ok(())
    }

    /// Keeps an open episode's duration in the file, and what was learned of it. Its severity may have risen.
    pub(crate) fn go_on(
        &mut self,
        track: &mut Track,
        duration_ns: u64,
        learned: bool,
        still: &dyn Fn() -> bool,
    ) {
        let Some(open) = &mut track.open else { return };
        let severity = self.settings.limits.of(duration_ns);
        let worse = severity > open.severity;
        open.severity = severity.max(open.severity);
        if !open.wanted {
            if worse {
                self.ask_again(track, duration_ns, still);
            }
            return;
        }
        // What lasts so long may not end: it is not only counted.
        if worse && severity >= Severity::Severe && open.counted && open.slot.is_none() {
            let (occasion, severity) = (open.occasion, open.severity);
            let answer = self.hooks.ask(candidate(track.kind, duration_ns, severity, track.finding().cause));
            if self.capture(&occasion, still).is_ok() && self.write(track, answer).is_ok() {
                self.count_in_earlier(track, false, 0);
            }
        }
        self.store(track, duration_ns, Outcome::Ongoing, learned || worse);
        if worse {
            self.tell(track, Phase::Worsened, duration_ns, 0);
        }
    }

    /// Closes the open episode, and brings it to the disk. Nothing happens if none is open.
    pub(crate) fn close(&mut self, track: &mut Track, duration_ns: u64, outcome: Outcome) {
        if let Some(open) = &mut track.open {
            let severity = open.severity.max(self.settings.limits.of(duration_ns));
            let worse = std::mem::replace(&mut open.severity, severity) < severity;
            if !open.wanted && worse {
                self.ask_again(track, duration_ns, &|| false);
            }
        }
        match &track.open {
            None => {}
            Some(open) if !open.wanted => count(&self.control.filtered),
            Some(_) => self.close_wanted(track, duration_ns, outcome),
        }
        (track.open, track.found) = (None, None);
        track.sampler.reset();
    }

    fn close_wanted(&mut self, track: &mut Track, duration_ns: u64, outcome: Outcome) {
        let phase = if outcome == Outcome::Recovered { Phase::Recovered } else { Phase::Lost };
        self.store(track, duration_ns, outcome, true);
        if track.open.as_ref().is_some_and(|open| open.counted && open.slot.is_none()) {
            self.count_in_earlier(track, false, duration_ns);
        }
        self.tell(track, phase, duration_ns, 0);
        if let Some(Open { slot: Some(slot), stack, .. }) = track.open.take() {
            // The record is in the page cache, where a kill leaves it; only a power failure could still take it.
            let _ = self.file.as_ref().map(|file| file.sync());
            if let Some(stack) = stack {
                self.annealing.keep(stack, Kept { slot, live: Live::new(duration_ns, outcome) });
            }
        }
    }

    /// Says in the record that counts it that this episode goes on, and for how long it has by now: the program may be killed.
    fn store_repeat(&mut self, stack: Option<u64>, lasted_ns: u64) {
        let Some((file, kept)) = self.file.as_ref().zip(stack.and_then(|stack| self.annealing.record(stack)))
        else {
            return;
        };
        if file.ring().holds(&kept.slot) && file.check().is_ok() {
            let repeated_ns = kept.live.repeated_ns.saturating_add(lasted_ns);
            let goes_on =
                Live { outcome: Outcome::Ongoing, repeated_ns, repeating_ns: lasted_ns, ..kept.live };
            file.ring().update(&mut kept.slot, goes_on);
        }
    }

    /// Brings the file up to date.
    fn store(&mut self, track: &mut Track, duration_ns: u64, outcome: Outcome, learned: bool) {
        if let Some(Open { counted: true, slot: None, stack, .. }) = track.open {
            return self.store_repeat(stack, duration_ns);
        }
        let (Some(file), Some(open)) = (&self.file, &mut track.open) else { return };
        let Some(slot) = open.slot.as_mut().filter(|_| file.check().is_ok()) else { return };
        if learned {
            track.sampler.weigh(duration_ns);
            let finding = track.found.as_ref().unwrap_or_else(|| track.sampler.finding());
            let (cpu_ns, window_ns) = track.sampler.cpu();
            let episode = Episode {
                severity: open.severity,
                cause: finding.cause,
                labels: open.labels,
                depth: open.occasion.depth,
                cpu_ns,
                window_ns,
                expected: open.expected.as_str(),
                evidence: finding.evidence(),
            };
            let room = file.ring().tail_room(slot).min(self.tail.len());
            let out = self.tail.get_mut(..room).unwrap_or(&mut []);
            let bytes = encode_tail(out, &episode, &track.sampler.samples());
            file.ring().store_tail(slot, out.get(..bytes).unwrap_or(&[]));
        }
        file.ring().update(slot, Live::new(duration_ns, outcome));
    }

    /// Counts an episode in the earlier record of its stack: one more, or one less if it got a record after all; or adds how
    /// long it lasted.
    fn count_in_earlier(&mut self, track: &mut Track, more: bool, lasted_ns: u64) {
        let Some(open) = &mut track.open else { return };
        let (Some(file), Some(stack)) = (&self.file, open.stack) else { return };
        let Some(kept) = self.annealing.record(stack).filter(|kept| file.ring().holds(&kept.slot)) else {
            return;
        };
        if more {
            count(&self.control.counted);
            kept.live.repeats = kept.live.repeats.saturating_add(1);
            (open.counted, open.heard) = (true, Ok(Some(kept.slot.sequence())));
        } else if lasted_ns == 0 {
            kept.live.repeats = kept.live.repeats.saturating_sub(1);
            open.counted = false;
        }
        kept.live.repeated_ns = kept.live.repeated_ns.saturating_add(lasted_ns);
        if file.check().is_ok() {
            file.ring().update(&mut kept.slot, kept.live);
        }
    }

    fn tell(&mut self, track: &Track, phase: Phase, duration_ns: u64, delay_ns: u64) {
        let Some(open) = track.open.as_ref().filter(|open| open.told) else { return };
        let candidate = candidate(track.kind, duration_ns, open.severity, track.finding().cause);
        let (counted, record) = (open.counted, open.heard.clone());
        self.hooks.tell(Heard { candidate, phase, delay_ns, counted, record });
    }
}

/// Without an answer it is.
fn is_wanted(answer: &Option<Answer>) -> bool {
    answer.is_none_or(|answer| answer.wanted)
}

fn candidate(kind: Kind, duration_ns: u64, severity: Severity, cause: Cause) -> Candidate {
    Candidate { kind, duration: Duration::from_nanos(duration_ns), severity, cause }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The items that there is room for.
fn fill<T>(room: &mut [T], items: impl Iterator<Item = T>) -> &[T] {
    let count = room.iter_mut().zip(items).map(|(to, item)| *to = item).count();
    room.get(..count).unwrap_or(&[])
}
