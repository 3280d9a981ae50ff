//! The ping strategy: a question is posted to the loop, and its answer shows that the loop turns.

use super::source::{Control, Source, Watched};
use crate::clock;
use crate::detect::Reading;
use crate::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use freezeframe_report::encode::Strategy;
use freezeframe_unwind::threads::{ThreadId, current};
use std::sync::Arc;

/// A loop that can be pinged.
pub trait PingTarget: Send + 'static {
    /// Posts work to the loop: [`Ping::answer`] is to be called on the loop's thread, in its turn. Called by the watcher;
    /// must not wait for the loop. If it panics, nothing is known of the loop from then on:
    /// [`Monitor::is_watching`](crate::Monitor::is_watching) says so.
    fn post(&mut self, ping: Ping);

    /// Whether the loop waits for events right now. No ping is sent to such a loop, so that it is not woken up for
    /// nothing. A loop that cannot tell is pinged at every tick; so is one for which this has panicked.
    ///
    /// A loop that has ever said so is believed if it says that it does not: what it waits for then is no event.
    fn is_waiting(&self) -> bool {
        false
    }
}

/// One question. It can be answered late, or never: it belongs to one round and does not speak for a later one.
#[derive(Debug)]
#[must_use]
pub struct Ping {
    generation: u64,
    shared: Arc<PingShared>,
}

impl Ping {
    /// Answers, on the loop's thread.
    pub fn answer(self) {
        self.answer_at(clock::now());
    }

    fn answer_at(self, now_ns: u64) {
        self.shared.thread.store(current().0, Ordering::Relaxed);
        // A late answer is smaller than the last one and changes nothing.
        if self.shared.answered.load(Ordering::Acquire) < self.generation {
            self.shared.answered_ns.store(now_ns, Ordering::Relaxed);
            self.shared.answered.fetch_max(self.generation, Ordering::AcqRel);
        }
    }
}

#[derive(Debug)]
struct PingShared {
    /// The latest generation that was answered.
    answered: AtomicU64,
    /// When that was.
    answered_ns: AtomicU64,
    /// The thread that answers.
    thread: AtomicI32,
}

/// The watcher's side: a loop that has not answered is busy since the ping was sent.
pub(crate) struct PingSource<T> {
    target: T,
    shared: Arc<PingShared>,
    asked: u64,
    asked_ns: u64,
    control: Arc<Control>,
    /// The target has panicked when it was asked whether its loop waits: it is not asked again.
    mute: bool,
    /// The target has said that its loop waits: it can tell.
    tells: bool,
}

/// The epoch in which the question of that generation is open.
const fn open_epoch(generation: u64) -> u64 {
    generation * 2
}

impl<T: PingTarget> PingSource<T> {
    pub(crate) fn new(target: T, thread: ThreadId, control: Arc<Control>) -> Self {
        let shared = PingShared {
            answered: AtomicU64::new(0),
            answered_ns: AtomicU64::new(0),
            thread: AtomicI32::new(thread.0),
        };
        let (shared, asked, asked_ns) = (Arc::new(shared), 0, 0);
        Self { target, shared, asked, asked_ns, control, mute: false, tells: false }
    }

    /// Whether the loop says that it waits.
    fn is_waiting(&mut self) -> bool {
        if self.mute {
            return false;
        }
        let answer = self.control.call(|| self.target.is_waiting());
        self.mute = answer.is_none();
        let waits = answer.unwrap_or(false);
        self.tells = (self.tells || waits) && !self.mute;
        waits
    }

    /// Posts the next question. False if that cannot be done, now or ever again.
    fn ask(&mut self, now_ns: u64) -> bool {
        if self.control.blind.load(Ordering::Relaxed) {
            return false;
        }
        let ping = Ping { generation: self.asked + 1, shared: self.shared.clone() };
        let posted = self.control.call(|| self.target.post(ping)).is_some();
        if posted {
            (self.asked, self.asked_ns) = (self.asked + 1, now_ns);
        } else {
            self.control.blind.store(true, Ordering::Release);
        }
        posted
    }

    fn is_answered(&self) -> bool {
        self.shared.answered.load(Ordering::Acquire) >= self.asked
    }
}

impl<T: PingTarget> Source for PingSource<T> {
    fn read(&mut self, now_ns: u64) -> Watched {
        // Once, and before the next question: its answer must not give its time to this one's. The time matters only to who
        // sees an answer for the first time, and then no question is open.
        let answered = self.shared.answered.load(Ordering::Acquire);
        let silence =
            (answered > 0).then(|| (open_epoch(answered), self.shared.answered_ns.load(Ordering::Relaxed)));
        let mut busy = answered < self.asked;
        if !busy && !self.is_waiting() {
            busy = self.ask(now_ns);
        }
        // An answered question is another epoch than the open one.
        let epoch = open_epoch(self.asked) + u64::from(!busy);
        let reading = Reading { epoch: (epoch, 0), busy, since_ns: self.asked_ns, silence };
        // A loop that says that it waits and yet does not answer waits in a mode that serves no pings.
        let waits = busy && self.is_waiting();
        let waits = self.tells.then_some(waits);
        Watched { reading, activity: 0, waited_ns: None, depth: 0, waits }
    }

    fn unchanged(&self, watched: &Watched) -> bool {
        !self.is_answered() && open_epoch(self.asked) == watched.reading.epoch.0
    }

    fn park(&mut self, _watched: &Watched) -> bool {
        false
    }

    fn thread(&self) -> ThreadId {
        ThreadId(self.shared.thread.load(Ordering::Relaxed))
    }

    fn strategy(&self) -> Strategy {
        Strategy::Ping
    }
}

#[cfg(all(test, explored))]
mod races;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    #[derive(Clone, Default)]
    struct Loop {
        posted: Arc<Mutex<Vec<Ping>>>,
        waits: Arc<AtomicBool>,
    }

    impl PingTarget for Loop {
        fn post(&mut self, ping: Ping) {
            self.posted.lock().unwrap().push(ping);
        }

        fn is_waiting(&self) -> bool {
            self.waits.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn one_question_at_a_time_and_its_age_is_the_loops_silence() {
        let target = Loop::default();
        let mut source = PingSource::new(target.clone(), ThreadId(1), Arc::default());
        let first = source.read(1000);
        assert!(first.reading.busy && first.reading.since_ns == 1000);
        assert_eq!(source.read(2000).reading, first.reading, "still the same question");
        assert_eq!(target.posted.lock().unwrap().len(), 1);
        let before = clock::now();
        target.posted.lock().unwrap().remove(0).answer();
        assert!(!source.unchanged(&first));
        let second = source.read(3000);
        let (epoch, end_ns) = second.reading.silence.unwrap();
        assert!(epoch == first.reading.epoch.0 && (before..=clock::now()).contains(&end_ns));
        assert!(second.reading.since_ns == 3000 && second.reading.epoch != first.reading.epoch);
        assert_eq!(source.thread(), current(), "the thread that answered is the one to look at");
    }

    #[test]
    fn a_late_answer_cannot_spoil_a_later_round() {
        let target = Loop::default();
        let mut source = PingSource::new(target.clone(), ThreadId(1), Arc::default());
        source.read(1000);
        let late = target.posted.lock().unwrap().remove(0);
        // The loop answers a copy that was posted twice, say; the first one stays in its queue.
        Ping { generation: late.generation, shared: late.shared.clone() }.answer();
        source.read(2000);
        let second = source.read(2001);
        late.answer();
        assert!(
            source.unchanged(&second) && source.read(3000).reading.busy,
            "the second question is still open"
        );
    }

    /// A target that panics, in one of its two functions.
    struct Broken {
        posts: bool,
        posted: Arc<Mutex<Vec<Ping>>>,
    }

    impl PingTarget for Broken {
        fn post(&mut self, ping: Ping) {
            assert!(self.posts, "this panic belongs to the test");
            self.posted.lock().unwrap().push(ping);
        }

        fn is_waiting(&self) -> bool {
            assert!(!self.posts, "this panic belongs to the test");
            false
        }
    }

    #[test]
    fn a_target_that_panics_is_not_asked_again_and_a_loop_that_cannot_be_pinged_is_neither_frozen_nor_watched()
     {
        for posts in [false, true] {
            let control = Arc::<Control>::default();
            let target = Broken { posts, posted: Arc::default() };
            let posted = target.posted.clone();
            let mut source = PingSource::new(target, ThreadId(1), control.clone());
            let looks: Vec<_> = (1..=10).map(|at| source.read(at * 1000)).collect();
            assert_eq!(control.panicked.load(Ordering::Relaxed), 1, "it is not called again");
            assert_eq!(control.blind.load(Ordering::Relaxed), !posts);
            assert!(looks.iter().all(|look| look.reading.busy == posts && look.waits.is_none()));
            // Who cannot say whether it waits is pinged all the same.
            assert_eq!(posted.lock().unwrap().len(), usize::from(posts));
        }
    }

    #[test]
    fn a_waiting_loop_is_left_alone() {
        let target = Loop::default();
        target.waits.store(true, Ordering::Relaxed);
        let mut source = PingSource::new(target.clone(), ThreadId(1), Arc::default());
        assert!(!source.read(1000).reading.busy);
        assert!(!source.read(2000).reading.busy);
        assert!(target.posted.lock().unwrap().is_empty());
        target.waits.store(false, Ordering::Relaxed);
        assert!(source.read(3000).reading.busy);
    }

    #[test]
    fn a_target_that_has_never_said_that_it_waits_may_be_one_that_cannot_tell() {
        let target = Loop::default();
        let mut source = PingSource::new(target.clone(), ThreadId(1), Arc::default());
        assert_eq!(source.read(1000).waits, None);
        target.waits.store(true, Ordering::Relaxed);
        assert_eq!(source.read(2000).waits, Some(true), "and it does not answer: in a mode without pings");
        target.waits.store(false, Ordering::Relaxed);
        assert_eq!(source.read(3000).waits, Some(false));
    }
}
