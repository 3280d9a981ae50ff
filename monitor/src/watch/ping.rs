//! The ping strategy: a question is posted to the loop, and its answer shows that the loop turns.

use super::source::{Source, Watched};
use crate::clock;
use crate::detect::Reading;
use crate::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use freezeframe_report::encode::Strategy;
use freezeframe_unwind::threads::{ThreadId, current};
use std::sync::Arc;

/// A loop that can be pinged.
pub trait PingTarget: Send + 'static {
    /// Posts work to the loop: [`Ping::answer`] is to be called on the loop's thread, in its turn. Called by the watcher;
    /// must not wait for the loop.
    fn post(&mut self, ping: Ping);

    /// Whether the loop waits for events right now. No ping is sent to such a loop, so that it is not woken up for
    /// nothing. A loop that cannot tell is pinged at every tick.
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
    /// The target has said that its loop waits: it can tell.
    tells: bool,
}

/// The epoch in which the question of that generation is open.
const fn open_epoch(generation: u64) -> u64 {
    generation * 2
}

impl<T: PingTarget> PingSource<T> {
    pub(crate) fn new(target: T, thread: ThreadId) -> Self {
        let shared = PingShared {
            answered: AtomicU64::new(0),
            answered_ns: AtomicU64::new(0),
            thread: AtomicI32::new(thread.0),
        };
        Self { target, shared: Arc::new(shared), asked: 0, asked_ns: 0, tells: false }
    }

    fn is_waiting(&mut self) -> bool {
        let waits = self.target.is_waiting();
        self.tells |= waits;
        waits
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
            busy = true;
            self.asked += 1;
            self.asked_ns = now_ns;
            self.target.post(Ping { generation: self.asked, shared: self.shared.clone() });
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
        let mut source = PingSource::new(target.clone(), ThreadId(1));
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
        let mut source = PingSource::new(target.clone(), ThreadId(1));
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

    #[test]
    fn a_waiting_loop_is_left_alone() {
        let target = Loop::default();
        target.waits.store(true, Ordering::Relaxed);
        let mut source = PingSource::new(target.clone(), ThreadId(1));
        assert!(!source.read(1000).reading.busy);
        assert!(!source.read(2000).reading.busy);
        assert!(target.posted.lock().unwrap().is_empty());
        target.waits.store(false, Ordering::Relaxed);
        assert!(source.read(3000).reading.busy);
    }

    #[test]
    fn a_target_that_has_never_said_that_it_waits_may_be_one_that_cannot_tell() {
        let target = Loop::default();
        let mut source = PingSource::new(target.clone(), ThreadId(1));
        assert_eq!(source.read(1000).waits, None);
        target.waits.store(true, Ordering::Relaxed);
        assert_eq!(source.read(2000).waits, Some(true), "and it does not answer: in a mode without pings");
        target.waits.store(false, Ordering::Relaxed);
        assert_eq!(source.read(3000).waits, Some(false));
    }
}
