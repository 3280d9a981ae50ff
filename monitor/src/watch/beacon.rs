//! The run-loop strategy: the loop stores where it is.

use super::parks::Turns;
use super::source::{Control, Source, Watched};
use crate::activity::Activity;
use crate::clock;
use crate::detect::Reading;
use crate::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use freezeframe_report::encode::Strategy;
use freezeframe_unwind::threads::ThreadId;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

/// Who asks the kernel for events and gets some at once has not waited.
const REAL_WAIT_NS: u64 = 20_000;

/// What the loop's thread writes and the watcher reads.
#[derive(Debug)]
pub(crate) struct BeaconShared {
    /// `epoch << 8 | activity`. Written by the loop's thread only.
    word: AtomicU64,
    /// Of the current epoch and the one before, each in the place of its parity. An epoch's is written before its word, while
    /// readers of the last word look at the other one.
    epochs: [Epoch; 2],
    /// When the loop last came back from a wait in which it really waited.
    waited_ns: AtomicU64,
    /// How many runs are nested in each other.
    depth: AtomicU32,
    /// The watcher sleeps without a deadline until the loop leaves its wait.
    parked: AtomicBool,
    /// For a loop that tells of its waits only.
    pub(super) turns: Turns,
    pub(super) control: Arc<Control>,
    thread: AtomicI32,
}

/// What belongs to an epoch.
#[derive(Debug, Default)]
struct Epoch {
    /// When it began: the last transition.
    since_ns: AtomicU64,
    /// The latest silence of a busy loop for a whole timeout or more: the epoch in which it was, plus one so that zero
    /// means none, and when it ended. The watcher looks once in a timeout, so it sees each.
    silent_epoch: AtomicU64,
    silent_end_ns: AtomicU64,
}

impl BeaconShared {
    pub(crate) fn new(thread: ThreadId, control: Arc<Control>) -> Self {
        let shared = Self {
            word: AtomicU64::new(Activity::Exit as u64),
            epochs: Default::default(),
            waited_ns: AtomicU64::new(clock::now()),
            depth: AtomicU32::new(0),
            parked: AtomicBool::new(false),
            turns: Turns::default(),
            control,
            thread: AtomicI32::new(thread.0),
        };
        shared.epoch(0).since_ns.store(clock::now(), Ordering::Relaxed);
        shared
    }

    fn epoch(&self, epoch: u64) -> &Epoch {
        let [even, odd] = &self.epochs;
        if epoch.is_multiple_of(2) { even } else { odd }
    }

    /// What the loop is about to do. Called by whoever runs it.
    pub(crate) fn store(&self, activity: Activity) {
        self.store_at(activity, clock::now());
    }

    fn store_at(&self, activity: Activity, now: u64) {
        let earlier = self.word.load(Ordering::Relaxed);
        let was_busy = Activity::from_code(earlier as u8).is_some_and(Activity::is_busy);
        let epoch = (earlier >> 8).wrapping_add(1);
        let (last, next) = (self.epoch(earlier >> 8), self.epoch(epoch));
        let silent_ns = now.saturating_sub(last.since_ns.load(Ordering::Relaxed));
        let (silent_epoch, silent_end_ns) =
            if was_busy && silent_ns >= self.control.interval_ns.load(Ordering::Relaxed) {
                (epoch, now)
            } else {
                (last.silent_epoch.load(Ordering::Relaxed), last.silent_end_ns.load(Ordering::Relaxed))
            };
        // Released: who sees one of these sees the last word too, and so that the word it began with has passed.
        next.since_ns.store(now, Ordering::Release);
        next.silent_epoch.store(silent_epoch, Ordering::Release);
        next.silent_end_ns.store(silent_end_ns, Ordering::Release);
        if !was_busy && silent_ns >= REAL_WAIT_NS {
            self.waited_ns.store(now, Ordering::Relaxed);
        }
        self.word.store(epoch << 8 | activity as u64, Ordering::Release);
        // An exchange, not a load: either it sees the watcher's mark, or the watcher, whose mark is an exchange as well,
        // sees the word stored above.
        if !was_busy && activity.is_busy() && self.parked.swap(false, Ordering::AcqRel) {
            self.control.wake.post();
        }
    }

    /// Another thread runs the loop now.
    #[cfg(feature = "glib")]
    pub(crate) fn set_thread(&self, thread: ThreadId) {
        self.thread.store(thread.0, Ordering::Relaxed);
    }

    /// How many runs are nested in each other.
    pub(crate) fn set_depth(&self, depth: u32) {
        self.depth.store(depth, Ordering::Relaxed);
    }
}

/// The loop's side of a monitor: tells where the loop is. It stays on the loop's thread.
///
/// A transition costs a clock read and four stores, and an exchange when it leaves the wait; no system call unless the
/// watcher sleeps.
#[derive(Debug)]
pub struct Beacon {
    pub(super) shared: Arc<BeaconShared>,
    /// The activities of the runs around the innermost one, outermost first.
    outer: [Cell<u8>; Beacon::MAX_DEPTH],
    depth: Cell<usize>,
    _not_send: PhantomData<*const ()>,
}

impl Beacon {
    /// Runs nested more deeply share the last place.
    const MAX_DEPTH: usize = 16;

    pub(crate) fn new(shared: Arc<BeaconShared>) -> Self {
        Self { shared, outer: Default::default(), depth: Cell::new(0), _not_send: PhantomData }
    }

    /// Tells what the loop is about to do.
    ///
    /// A loop that runs inside a callback of another run begins with [`Activity::Entry`] and ends with
    /// [`Activity::Exit`]; after that the outer run's activity is in force again, since its callback still goes on.
    #[inline]
    pub fn transition(&self, activity: Activity) {
        match activity {
            Activity::Entry => self.enter(),
            Activity::Exit => self.exit(),
            activity => self.shared.store(activity),
        }
    }

    fn enter(&self) {
        let depth = self.depth.get();
        if let Some(outer) = self.outer.get(depth) {
            outer.set(self.shared.word.load(Ordering::Relaxed) as u8);
        }
        self.set_depth(depth + 1);
        self.shared.store(Activity::Entry);
    }

    fn exit(&self) {
        // An Exit without its Entry: the beacon was made inside that run.
        let Some(depth) = self.depth.get().checked_sub(1) else { return self.shared.store(Activity::Exit) };
        self.set_depth(depth);
        let outer = self.outer.get(depth).map_or(Activity::AfterWaiting as u8, Cell::get);
        self.shared.store(Activity::from_code(outer).unwrap_or(Activity::Exit));
    }
}

impl Beacon {
    fn set_depth(&self, depth: usize) {
        self.depth.set(depth);
        self.shared.set_depth(depth as u32);
    }
}

impl Drop for Beacon {
    /// A loop whose beacon is gone is not busy.
    fn drop(&mut self) {
        self.shared.turns.stop_asking();
        self.shared.store(Activity::Exit);
    }
}

impl Source for Arc<BeaconShared> {
    fn read(&mut self, now_ns: u64) -> Watched {
        loop {
            let word = self.word.load(Ordering::Acquire);
            let epoch = self.epoch(word >> 8);
            let since_ns = epoch.since_ns.load(Ordering::Acquire);
            let silent_epoch = epoch.silent_epoch.load(Ordering::Acquire);
            let silent_end_ns = epoch.silent_end_ns.load(Ordering::Acquire);
            if self.word.load(Ordering::Acquire) == word {
                let busy = Activity::from_code(word as u8).is_some_and(Activity::is_busy);
                if busy {
                    Turns::ask(self);
                }
                let silence = silent_epoch.checked_sub(1).map(|epoch| (epoch, silent_end_ns));
                let reading = Reading { epoch: (word >> 8, 0), busy, since_ns, silence };
                let waits = !busy && now_ns.saturating_sub(since_ns) >= REAL_WAIT_NS;
                let waited_ns = if waits { now_ns } else { self.waited_ns.load(Ordering::Relaxed) };
                let depth = self.depth.load(Ordering::Relaxed);
                return Watched {
                    reading,
                    activity: word as u8,
                    waited_ns: Some(waited_ns),
                    depth,
                    waits: false,
                };
            }
        }
    }

    fn unchanged(&self, watched: &Watched) -> bool {
        self.word.load(Ordering::Acquire) >> 8 == watched.reading.epoch.0
    }

    fn park(&mut self, watched: &Watched) -> bool {
        self.parked.swap(true, Ordering::AcqRel);
        let idle = self.unchanged(watched);
        if !idle {
            self.parked.swap(false, Ordering::AcqRel);
        }
        idle
    }

    fn thread(&self) -> ThreadId {
        ThreadId(self.thread.load(Ordering::Relaxed))
    }

    fn strategy(&self) -> Strategy {
        Strategy::RunLoop
    }
}

#[cfg(all(test, explored))]
mod races;

#[cfg(test)]
mod tests {
    use super::*;

    fn beacon() -> (Beacon, Arc<BeaconShared>) {
        let shared = Arc::new(BeaconShared::new(ThreadId(1), Arc::default()));
        (Beacon::new(shared.clone()), shared)
    }

    #[test]
    fn each_transition_is_a_new_epoch_with_its_own_time() {
        let (beacon, mut shared) = beacon();
        let before = shared.read(0);
        assert!(!before.reading.busy);
        let began = clock::now();
        beacon.transition(Activity::AfterWaiting);
        let after = shared.read(0);
        assert_eq!(after.reading.epoch.0, before.reading.epoch.0 + 1);
        assert!(after.reading.busy && after.activity == 64);
        assert!((began..=clock::now()).contains(&after.reading.since_ns));
        assert!(!shared.unchanged(&before) && shared.unchanged(&after));
        beacon.transition(Activity::AfterWaiting);
        assert!(!shared.unchanged(&after), "the same activity again is a turn all the same");
    }

    #[test]
    fn the_end_of_a_long_silence_is_remembered_through_the_turns_after_it() {
        let (beacon, mut shared) = beacon();
        shared.control.interval_ns.store(2_000_000, Ordering::Relaxed);
        let mut silence_of = |beacon: &Beacon, activity| {
            beacon.transition(activity);
            let silent = shared.read(0).reading;
            std::thread::sleep(std::time::Duration::from_millis(2));
            beacon.transition(Activity::BeforeSources);
            let end = shared.read(0).reading;
            for _ in 0..100 {
                beacon.transition(Activity::BeforeTimers);
                beacon.transition(Activity::BeforeWaiting);
            }
            (silent.epoch.0, end.since_ns, shared.read(0).reading.silence)
        };
        let (epoch, end_ns, known) = silence_of(&beacon, Activity::AfterWaiting);
        // Unless this test itself was kept from running for a whole timeout.
        assert!(known == Some((epoch, end_ns)) || known > Some((epoch, end_ns)), "{known:?}");
        let (epoch, ..) = silence_of(&beacon, Activity::BeforeWaiting);
        assert_ne!(
            shared.read(0).reading.silence.map(|(silent, _)| silent),
            Some(epoch),
            "a wait is no silence"
        );
    }

    #[test]
    fn the_end_of_a_nested_run_restores_the_outer_activity() {
        let (beacon, mut shared) = beacon();
        let mut is_busy = |beacon: &Beacon, activity| {
            beacon.transition(activity);
            (shared.read(0).reading.busy, shared.read(0).activity)
        };
        use Activity::*;
        is_busy(&beacon, Entry);
        is_busy(&beacon, BeforeSources);
        is_busy(&beacon, Entry);
        assert_eq!(is_busy(&beacon, BeforeWaiting), (false, 32));
        assert_eq!(is_busy(&beacon, Exit), (true, 4), "the outer callback goes on");
        assert_eq!(is_busy(&beacon, Exit), (false, 128));
        assert_eq!(is_busy(&beacon, Exit), (false, 128), "an Exit without its Entry");
        for _ in 0..40 {
            is_busy(&beacon, Entry);
        }
        for _ in 0..39 {
            assert!(is_busy(&beacon, Exit).0, "deeper than the beacon remembers");
        }
        assert!(!is_busy(&beacon, Exit).0);
    }

    #[test]
    fn only_a_parked_watcher_is_woken_and_only_by_a_loop_that_leaves_its_wait() {
        let (beacon, mut shared) = beacon();
        let woken = |shared: &BeaconShared| shared.control.wake.wait_until(0);
        beacon.transition(Activity::BeforeWaiting);
        let idle = shared.read(0);
        assert!(shared.park(&idle));
        beacon.transition(Activity::Exit);
        beacon.transition(Activity::BeforeWaiting);
        assert!(!woken(&shared), "from wait to wait");
        beacon.transition(Activity::AfterWaiting);
        assert!(woken(&shared));
        beacon.transition(Activity::BeforeWaiting);
        beacon.transition(Activity::AfterWaiting);
        assert!(!woken(&shared), "not parked any more");
        assert!(!shared.park(&idle), "the loop has left that wait already");
        drop(beacon);
        assert!(!shared.read(0).reading.busy);
    }
}
