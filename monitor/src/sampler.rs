//! Looks at the watched thread while its loop is silent: samples of its stack, and what they say of the cause.

use crate::capture::Capturer;
use crate::cause::{Causes, Circumstances, Finding, waited_ns};
use crate::samples::{Look, Place, Samples, Schedule};
use crate::subject::{self, Subject};
use crate::vitals::CpuShare;
use freezeframe_unwind::rule::FrameAddress;
use freezeframe_unwind::snapshot::Held;
use freezeframe_unwind::threads::{RunState, SystemCall, ThreadFacts, ThreadId};

/// How many frames of a stack are looked at.
const FRAMES: usize = 256;

/// What a look begins with: the thread's times at the look before.
#[derive(Clone, Copy, Debug)]
struct Before {
    silent_ns: u64,
    cpu_ns: u64,
    process_cpu_ns: u64,
    run_queue_ns: Option<u64>,
}

/// What the watcher knows of the silence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silence {
    /// How long it has lasted: time that counts.
    pub(crate) silent_ns: u64,
    /// From which length on it is called something.
    pub(crate) threshold_ns: u64,
    /// Ticks that came too late in it.
    pub(crate) late_ticks: u64,
    /// Whether the loop waits, as it says itself; none if it does not say.
    pub(crate) waits: Option<bool>,
}

/// The samples of one silence. All of its memory is there from the start.
pub(crate) struct Sampler {
    samples: Samples,
    causes: Causes,
    schedule: Option<Schedule>,
    first: Option<Before>,
    before: Option<Before>,
    places: Vec<Place>,
    /// How the last capture has left a thread that waits.
    rests: Option<Rest>,
    /// How often a wait was disturbed by a signal in this silence.
    disturbed: u32,
}

/// A wait: if the thread is in the same call and has had no CPU time since, it has not run, and its stack is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rest {
    call: SystemCall,
    cpu_ns: u64,
    finding: Finding,
}

/// Some waits end when a signal comes: a sampler that does that again and again would change what it looks at.
const MOST_DISTURBED: u32 = 2;

impl Sampler {
    pub(crate) fn new() -> Self {
        Self {
            samples: Samples::new(),
            causes: Causes::new(),
            schedule: None,
            first: None,
            before: None,
            places: Vec::with_capacity(FRAMES + 1),
            rests: None,
            disturbed: 0,
        }
    }

    /// The loop has turned: what was seen belongs to no freeze.
    pub(crate) fn reset(&mut self) {
        if self.first.is_some() || self.schedule.is_some() {
            self.samples.clear();
            self.causes = Causes::new();
            (self.schedule, self.first, self.before) = (None, None, None);
            (self.rests, self.disturbed) = (None, 0);
        }
    }

    /// One tick of the silence: takes a sample if one is due, and says whether it has. The first tick only notes the thread's
    /// CPU time.
    pub(crate) fn tick(
        &mut self,
        capturer: &mut Capturer,
        thread: ThreadId,
        silence: Silence,
        still: &dyn Fn() -> bool,
    ) -> bool {
        let subject = capturer.subject;
        if self.first.is_none() {
            let cpu_ns = subject::facts(subject, thread).cpu_ns;
            self.note(subject, silence.silent_ns, cpu_ns, waited_ns(subject, thread));
        }
        let schedule = self.schedule.get_or_insert(Schedule::new(silence.threshold_ns));
        if !schedule.is_due(silence.silent_ns) {
            return false;
        }
        if self.samples.view().samples.is_empty() {
            // Without a newer table, the older one.
            let _ = capturer.refresh();
        }
        let facts = subject::facts(subject, thread);
        let waits = facts.state == RunState::Sleeping && facts.system_call.is_some();
        match self.rests.filter(|rest| Some(rest.call) == facts.system_call && rest.cpu_ns == facts.cpu_ns) {
            Some(rest) if waits && still() => self.repeat(subject, silence, &facts, rest.finding),
            _ if waits && self.disturbed >= MOST_DISTURBED => {
                self.add_without_stack(subject, silence, &facts)
            }
            _ => {
                capturer.one(thread, still);
                self.learn(capturer, silence);
            }
        }
        true
    }

    /// The thread has not run since the last sample: one more like it.
    fn repeat(&mut self, subject: Subject, silence: Silence, facts: &ThreadFacts, finding: Finding) {
        let window_ns = self.before.map_or(0, |before| silence.silent_ns.saturating_sub(before.silent_ns));
        self.note(
            subject,
            silence.silent_ns,
            facts.cpu_ns,
            self.before.and_then(|before| before.run_queue_ns),
        );
        self.causes.note(finding, window_ns);
        self.samples.add(look(silence, 0, facts), &self.places);
    }

    fn add_without_stack(&mut self, subject: Subject, silence: Silence, facts: &ThreadFacts) {
        let cpu_ns = self.before.map_or(0, |before| facts.cpu_ns.saturating_sub(before.cpu_ns));
        self.note(
            subject,
            silence.silent_ns,
            facts.cpu_ns,
            self.before.and_then(|before| before.run_queue_ns),
        );
        self.samples.add(look(silence, cpu_ns, facts), &[]);
    }

    /// A sample of what was captured just now: its first thread.
    pub(crate) fn learn(&mut self, capturer: &mut Capturer, silence: Silence) {
        let Some(thread) = capturer.first() else { return };
        if let Some(schedule) = &mut self.schedule {
            schedule.is_due(silence.silent_ns);
        }
        if thread.moved {
            self.samples.moved = self.samples.moved.saturating_add(1);
            return;
        }
        let subject = capturer.subject;
        let run_queue_ns = waited_ns(subject, thread.thread);
        let before = self.before;
        self.note(subject, silence.silent_ns, thread.facts.cpu_ns, run_queue_ns);
        let since = |now: u64, then: u64| now.saturating_sub(then);
        let cpu_ns = before.map_or(0, |before| since(thread.facts.cpu_ns, before.cpu_ns));
        let (all_cpu, all_time) = self.cpu();
        let circumstances = Circumstances {
            window_ns: before.map_or(0, |before| since(silence.silent_ns, before.silent_ns)),
            cpu_ns,
            overall_percent: all_cpu.saturating_mul(100) / all_time.max(1),
            run_queue_ns: before.and_then(|b| Some(since(run_queue_ns?, b.run_queue_ns?))),
            late_ticks: silence.late_ticks,
            loop_waits: silence.waits,
        };
        let finding = capturer.investigate(&circumstances, &thread);
        self.causes.note(finding, circumstances.window_ns);
        self.places.clear();
        if !matches!(thread.held, Held::Not(_)) {
            self.collect_places(capturer, &thread);
        }
        self.samples.add(look(silence, cpu_ns, &thread.facts), &self.places);
        // What the capture itself has cost it is no sign that it has gone on.
        let call = thread.facts.system_call.filter(|_| thread.facts.state == RunState::Sleeping);
        self.rests =
            call.map(|call| Rest { call, cpu_ns: subject::facts(subject, thread.thread).cpu_ns, finding });
        self.disturbed +=
            u32::from(call.is_some() && matches!(thread.held, Held::Signal { .. } | Held::Torn));
    }

    fn collect_places(
        &mut self,
        capturer: &mut Capturer,
        thread: &freezeframe_unwind::snapshot::ThreadCapture,
    ) {
        for number in 0..FRAMES {
            let Some(frame) = capturer.frame(thread, number) else { break };
            if thread.summary.omitted > 0 && number == thread.summary.omitted_after {
                self.places.push(Place { address: 0, origin: 0, trust: 0, function: 0 });
            }
            let function = capturer.function(capturer.lookup(frame.address));
            let origin = match frame.address {
                FrameAddress::InstructionPointer(_) => 1,
                FrameAddress::ReturnAddress(_) => 2,
                FrameAddress::SignalReturn(_) => 3,
            };
            let address = frame.address.raw();
            self.places.push(Place { address, origin, trust: frame.trust as u8, function });
        }
    }

    fn note(&mut self, subject: Subject, silent_ns: u64, cpu_ns: u64, run_queue_ns: Option<u64>) {
        let process_cpu_ns = subject::cpu_ns(subject);
        let now = Before { silent_ns, cpu_ns, process_cpu_ns, run_queue_ns };
        self.first.get_or_insert(now);
        self.before = Some(now);
    }

    /// Gives each sample its weight, now that the silence has lasted so long.
    pub(crate) fn weigh(&mut self, lasted_ns: u64) {
        self.samples.weigh(lasted_ns);
    }

    /// What most of the time speaks for.
    pub(crate) fn finding(&self) -> &Finding {
        self.causes.heaviest()
    }

    /// The heaviest stack, once the samples are weighed.
    pub(crate) fn heaviest(&self) -> Option<u64> {
        self.samples.heaviest()
    }

    /// CPU time of the thread from the first look to the latest, and how far these lie apart.
    pub(crate) fn cpu(&self) -> (u64, u64) {
        match (self.first, self.before) {
            (Some(first), Some(last)) => {
                (last.cpu_ns.saturating_sub(first.cpu_ns), last.silent_ns.saturating_sub(first.silent_ns))
            }
            _ => (0, 0),
        }
    }

    /// CPU time of all threads from the first look to the latest; none if that was the first.
    pub(crate) fn process_cpu(&self) -> Option<CpuShare> {
        let (first, last) = (self.first?, self.before?);
        let cpu_ns = last.process_cpu_ns.saturating_sub(first.process_cpu_ns);
        let window_ns = last.silent_ns.saturating_sub(first.silent_ns);
        (window_ns > 0).then_some(CpuShare { cpu_ns, window_ns })
    }

    /// The samples, as a record has them.
    pub(crate) fn samples(&self) -> freezeframe_report::encode::Samples<'_> {
        self.samples.view()
    }
}

fn look(silence: Silence, cpu_ns: u64, facts: &ThreadFacts) -> Look {
    Look {
        at_ns: silence.silent_ns,
        cpu_ns,
        state: facts.state as u8,
        system_call: facts.system_call.map_or(u32::MAX, |call| call.number),
    }
}

#[cfg(all(test, any(target_os = "linux", target_os = "macos")))]
mod tests {
    use super::*;
    use freezeframe_unwind::init::{Config, init};
    use std::sync::mpsc;

    #[test]
    fn a_stack_that_was_taken_after_the_loop_had_turned_is_thrown_away_and_counted() {
        let (end, ended) = mpsc::channel::<()>();
        let (send, id) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            send.send(freezeframe_unwind::threads::current()).unwrap();
            let _ = ended.recv();
        });
        let id = id.recv().unwrap();
        let mut capturer = Capturer::new(Subject::Own, init(Config::default()).unwrap(), false).unwrap();
        capturer.begin(None);
        let mut sampler = Sampler::new();
        let silence = |silent_ns| Silence { silent_ns, threshold_ns: 250, late_ticks: 0, waits: None };
        assert!(!sampler.tick(&mut capturer, id, silence(50), &|| true), "too early");
        assert!(sampler.tick(&mut capturer, id, silence(150), &|| false));
        assert!(sampler.tick(&mut capturer, id, silence(200), &|| true));
        let samples = sampler.samples();
        assert_eq!((samples.moved, samples.samples.len()), (1, 1));
        assert_eq!(samples.samples[0].at_ns, 200);
        assert!(samples.nodes.len() > 3, "the stack of the second look is there");
        sampler.reset();
        assert_eq!((sampler.samples().moved, sampler.samples().samples.len()), (0, 0));
        drop(end);
        thread.join().unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_that_waits_is_read_once_and_its_later_samples_are_like_the_first() {
        let (end, ended) = mpsc::channel::<()>();
        let (send, id) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            send.send(freezeframe_unwind::threads::current()).unwrap();
            let _ = ended.recv();
        });
        let id = id.recv().unwrap();
        while subject::facts(Subject::Own, id).state != RunState::Sleeping {
            std::thread::yield_now();
        }
        let mut capturer = Capturer::new(Subject::Own, init(Config::default()).unwrap(), false).unwrap();
        capturer.begin(None);
        let mut sampler = Sampler::new();
        let asked = std::cell::Cell::new(0);
        let still = || {
            asked.set(asked.get() + 1);
            true
        };
        for at in 1..=20 {
            let silence = Silence { silent_ns: at * 1000, threshold_ns: 250, late_ticks: 0, waits: None };
            sampler.tick(&mut capturer, id, silence, &still);
        }
        let samples = sampler.samples();
        let first = samples.samples[0];
        assert!(samples.samples.len() > 10 && asked.get() >= samples.samples.len());
        let with_stack: Vec<_> =
            samples.samples.iter().filter(|sample| sample.stack == first.stack).collect();
        // An emulator does not tell of system calls: there each is a capture of its own.
        assert!(with_stack.len() + 2 >= samples.samples.len(), "{:?}", samples.samples);
        drop(end);
        thread.join().unwrap();
    }
}
