//! What a strategy sees, checked against what the loop says of itself.

use super::observers::Observers;
use super::run_loop::RunLoop;
use crate::activity::Activity;
use crate::watch::source::{Source, Watched};
use freezeframe_report::encode::Strategy;
use freezeframe_unwind::threads::ThreadId;
use std::time::Duration;

/// A strategy and the loop that it watches.
///
/// - A loop that seems busy and yet waits is nested in a mode that is not watched. That it waits is a sign of life like a
///   transition: the reading has a new epoch then.
/// - A loop that seems to wait, or to be left, and yet works is in a callback whose beginning our observers do not see: of
///   an observer even later than ours, or of a run whose Entry was before our time. It is busy.
///
/// A watcher that sleeps is woken by a transition only. So a freeze that begins after a long wait and before our first
/// observer is called, in one of the same order that was added earlier, is not seen.
#[derive(Debug)]
pub(super) struct Checked<S> {
    strategy: S,
    run_loop: RunLoop,
    /// They tell the strategy of the loop's activities, if it is not by pings.
    observers: Option<Observers>,
    /// The strategy's epoch at the last look.
    epoch: Option<u64>,
    /// How often the loop was seen to wait though it seemed busy, and when that was last so.
    signs: u64,
    sign_ns: u64,
}

impl<S: Source> Checked<S> {
    /// The pauses between the questions whether the loop waits. A poll takes some microseconds, and is not met each time.
    const PAUSES: [Duration; 2] = [Duration::from_micros(300), Duration::from_micros(700)];

    pub(super) fn new(strategy: S, run_loop: &RunLoop, observers: Option<Observers>) -> Self {
        Self { strategy, run_loop: run_loop.clone(), observers, epoch: None, signs: 0, sign_ns: 0 }
    }

    /// Whether the loop waits, and does not only ask whether there are events.
    fn really_waits(&self) -> bool {
        let waits_after = |pause: &Duration| {
            std::thread::sleep(*pause);
            self.run_loop.is_waiting()
        };
        self.run_loop.is_waiting() && Self::PAUSES.iter().all(waits_after)
    }

    /// Whether the loop works though its last activity says that it does not.
    fn works_after(&self, activity: u8) -> bool {
        let is_in_watched_run = || self.observers.as_ref().is_some_and(Observers::are_in_current_mode);
        match Activity::from_code(activity) {
            Some(Activity::BeforeWaiting) => !self.run_loop.is_waiting(),
            Some(Activity::Exit) => !self.run_loop.is_waiting() && is_in_watched_run(),
            _ => false,
        }
    }

    /// The strategy's own view of what `read` has returned.
    fn inner(&self, watched: &Watched) -> Watched {
        let mut inner = *watched;
        inner.reading.epoch.0 = inner.reading.epoch.0.wrapping_sub(self.signs);
        inner
    }
}

impl<S: Source> Source for Checked<S> {
    fn read(&mut self, now_ns: u64) -> Watched {
        let mut watched = self.strategy.read(now_ns);
        let reading = &mut watched.reading;
        let epoch = reading.epoch.0;
        // The silence was in an epoch as it was called until now.
        reading.silence = reading.silence.map(|(silent, end_ns)| (silent.wrapping_add(self.signs), end_ns));
        if self.epoch.replace(epoch) == Some(epoch) {
            if !reading.busy {
                reading.busy = self.works_after(watched.activity);
            } else if self.really_waits() {
                self.signs = self.signs.wrapping_add(1);
                self.sign_ns = now_ns;
            }
        }
        reading.epoch.0 = epoch.wrapping_add(self.signs);
        reading.since_ns = reading.since_ns.max(self.sign_ns);
        // If it waited, it would have given a sign of life.
        watched.waits = Some(false);
        watched
    }

    fn unchanged(&self, watched: &Watched) -> bool {
        self.strategy.unchanged(&self.inner(watched))
    }

    fn park(&mut self, watched: &Watched) -> bool {
        let inner = self.inner(watched);
        self.strategy.park(&inner)
    }

    fn thread(&self) -> ThreadId {
        self.strategy.thread()
    }

    fn strategy(&self) -> Strategy {
        self.strategy.strategy()
    }
}
