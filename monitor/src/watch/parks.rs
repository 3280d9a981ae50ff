//! A loop that tells of its waits only, such as an async runtime of one thread.
//!
//! Between two waits it may run for long and yet turn all the while: one task after the other. So a loop that the watcher
//! finds at work is given a task as well, and that it comes to it is a sign of life.

use super::beacon::{Beacon, BeaconShared};
use crate::activity::Activity;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What the watcher asks a loop to do in its turn. See [`Beacon::ask_by`].
#[derive(Debug)]
#[must_use = "the loop is to tell of its turn"]
pub struct Turn {
    shared: Arc<BeaconShared>,
}

impl Turn {
    /// Tells that the loop turns: on the loop's thread, in its turn.
    pub fn tell(self) {
        self.shared.store(Activity::BeforeSources);
    }
}

impl Drop for Turn {
    /// Whether it was told of or thrown away: another one may be asked for.
    fn drop(&mut self) {
        self.shared.turns.is_open.store(false, Ordering::Release);
    }
}

type Ask = Box<dyn FnMut(Turn) + Send>;

/// How a loop is asked to turn.
#[derive(Default)]
pub(super) struct Turns {
    /// Locked while it is set, and while it asks.
    ask: Mutex<Option<Ask>>,
    /// A turn has been asked for, and has not come yet.
    is_open: AtomicBool,
}

impl std::fmt::Debug for Turns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turns").field("is_open", &self.is_open).finish_non_exhaustive()
    }
}

impl Turns {
    fn set(&self, ask: Option<Ask>) {
        // What was there is dropped without the lock.
        let _before = std::mem::replace(&mut *self.ask.lock().unwrap_or_else(PoisonError::into_inner), ask);
    }

    /// Called by the watcher, which has found the loop at work.
    pub(super) fn ask(shared: &Arc<BeaconShared>) {
        let turns = &shared.turns;
        let mut asks = turns.ask.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ask) = asks.as_mut().filter(|_| !turns.is_open.swap(true, Ordering::AcqRel)) {
            let turn = Turn { shared: shared.clone() };
            if shared.control.call(|| ask(turn)).is_none() {
                *asks = None;
            }
        }
    }

    pub(super) fn stop_asking(&self) {
        self.set(None);
    }
}

impl Beacon {
    /// Two functions for a runtime to call on the loop's thread: right before it waits, and right after. Calls on other threads
    /// change nothing: of a runtime with several threads, only a loop on this one is watched.
    ///
    /// Such a runtime does not tell that it turns while it has work to do: see [`ask_by`](Self::ask_by).
    ///
    /// With tokio, on the thread that will call `block_on`:
    ///
    /// ```
    /// use freezeframe_monitor::{Activity, Monitor};
    ///
    /// let (monitor, beacon) = Monitor::builder("runtime").watch_run_loop()?;
    /// let (park, unpark) = beacon.park_hooks();
    /// let runtime = tokio::runtime::Builder::new_current_thread()
    ///     .on_thread_park(park)
    ///     .on_thread_unpark(unpark)
    ///     .build()?;
    /// let handle = runtime.handle().clone();
    /// beacon.ask_by(move |turn| drop(handle.spawn(async { turn.tell() })));
    ///
    /// beacon.transition(Activity::Entry);
    /// runtime.block_on(async { /* … the program … */ });
    /// beacon.transition(Activity::Exit);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn park_hooks(&self) -> (impl Fn() + Send + Sync + 'static, impl Fn() + Send + Sync + 'static) {
        let here = std::thread::current().id();
        let hook = |activity| {
            let shared = self.shared.clone();
            move || {
                if std::thread::current().id() == here {
                    shared.store(activity);
                }
            }
        };
        (hook(Activity::BeforeWaiting), hook(Activity::AfterWaiting))
    }

    /// Sets how a loop that tells of its waits only is asked for a sign of life: `ask` hands the turn over to the loop, as a
    /// task like any other, and does not wait for it. Called by the watcher, once in a timeout at most, if it finds the loop at
    /// work: an idle loop is left alone. One that panics is not called again; the loop is watched by its waits alone then, and
    /// [`Statistics::panicked`](crate::Statistics::panicked) says so.
    pub fn ask_by(&self, ask: impl FnMut(Turn) + Send + 'static) {
        self.shared.turns.set(Some(Box::new(ask)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::source::Source;
    use freezeframe_unwind::threads::ThreadId;
    use std::sync::mpsc::{channel, sync_channel};

    fn beacon() -> (Beacon, Arc<BeaconShared>) {
        let shared = Arc::new(BeaconShared::new(ThreadId(1), Arc::default()));
        (Beacon::new(shared.clone()), shared)
    }

    #[test]
    fn the_hooks_tell_of_the_loops_waits_and_of_no_other_threads() {
        let (beacon, mut shared) = beacon();
        let (park, unpark) = beacon.park_hooks();
        unpark();
        let busy = shared.read(0);
        assert_eq!((busy.reading.busy, busy.activity), (true, Activity::AfterWaiting as u8));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                park();
                unpark();
            });
        });
        assert!(shared.unchanged(&busy), "a worker of the runtime's");
        park();
        assert_eq!((shared.read(0).reading.busy, shared.read(0).activity), (false, 32));
    }

    #[test]
    fn a_loop_at_work_is_asked_for_one_turn_at_a_time_and_an_idle_one_for_none() {
        let (beacon, mut shared) = beacon();
        let (send, asked) = channel();
        beacon.ask_by(move |turn| send.send(turn).unwrap());
        shared.read(0);
        assert!(asked.try_recv().is_err(), "it has not begun yet");
        beacon.transition(Activity::AfterWaiting);
        let before = shared.read(0);
        shared.read(0);
        let turn = asked.try_recv().unwrap();
        assert!(asked.try_recv().is_err(), "one at a time");
        turn.tell();
        assert!(!shared.unchanged(&before) && shared.read(0).reading.busy, "it has turned, and works on");
        drop(asked.try_recv().unwrap());
        let thrown_away = shared.read(0);
        assert!(asked.try_recv().is_ok(), "another one, after one that was thrown away");
        assert!(shared.unchanged(&thrown_away));
        beacon.transition(Activity::BeforeWaiting);
        shared.read(0);
        assert!(asked.try_recv().is_err(), "an idle loop is not woken");
    }

    #[test]
    fn a_closure_that_panics_is_not_asked_again_and_the_loops_own_signs_still_count() {
        let (beacon, mut shared) = beacon();
        beacon.ask_by(|_| panic!("this panic belongs to the test"));
        beacon.transition(Activity::AfterWaiting);
        let first = shared.read(0);
        assert!((0..10).all(|_| shared.read(0).reading == first.reading) && first.reading.busy);
        assert_eq!(shared.control.panicked.load(Ordering::Relaxed), 1);
        beacon.transition(Activity::BeforeWaiting);
        assert!(!shared.read(0).reading.busy);
    }

    #[test]
    fn a_beacon_that_is_gone_keeps_nothing_of_the_loops() {
        let (beacon, shared) = beacon();
        let (held, holds) = sync_channel::<()>(0);
        beacon.ask_by(move |turn| {
            let _ = &held;
            drop(turn);
        });
        drop(beacon);
        assert!(holds.try_recv().is_err_and(|error| error == std::sync::mpsc::TryRecvError::Disconnected));
        drop(shared);
    }
}
