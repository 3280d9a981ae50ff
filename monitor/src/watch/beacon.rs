//! The run-loop strategy: the loop stores where it is.

use super::board::Board;
use super::parks::Turns;
use super::source::{Control, Source, Watched};
use crate::activity::Activity;
use crate::clock;
use crate::sync::atomic::{AtomicBool, Ordering};
use freezeframe_report::encode::Strategy;
use freezeframe_unwind::threads::ThreadId;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

/// What the loop's thread tells and the watcher reads, and how the one wakes the other.
#[derive(Debug)]
pub(crate) struct BeaconShared {
    pub(super) board: Board,
    /// The watcher sleeps without a deadline until the loop leaves its wait.
    parked: AtomicBool,
    /// For a loop that tells of its waits only.
    pub(super) turns: Turns,
    pub(super) control: Arc<Control>,
}

impl BeaconShared {
    pub(crate) fn new(thread: ThreadId, control: Arc<Control>) -> Self {
        let board = Board::new(thread, clock::now());
        Self { board, parked: AtomicBool::new(false), turns: Turns::default(), control }
    }

    /// What the loop is about to do. Called by whoever runs it.
    pub(crate) fn store(&self, activity: Activity) {
        self.store_at(activity, clock::now());
    }

    fn store_at(&self, activity: Activity, now: u64) {
        let leaves_its_wait =
            self.board.store(activity, now, self.control.interval_ns.load(Ordering::Relaxed));
        // An exchange, not a load: either it sees the watcher's mark, or the watcher, whose mark is an exchange as well,
        // sees the word stored just now.
        if leaves_its_wait && self.parked.swap(false, Ordering::AcqRel) {
            self.control.wake.post();
        }
    }

    /// Another thread runs the loop now.
    #[cfg(feature = "glib")]
    pub(crate) fn set_thread(&self, thread: ThreadId) {
        self.board.set_thread(thread);
    }

    /// How many runs are nested in each other.
    pub(crate) fn set_depth(&self, depth: u32) {
        self.board.set_depth(depth);
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
            outer.set(self.shared.board.activity());
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
        let watched = self.board.read(now_ns);
        if watched.reading.busy {
            Turns::ask(self);
        }
        watched
    }

    fn unchanged(&self, watched: &Watched) -> bool {
        self.board.unchanged(watched)
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
        self.board.thread()
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
