//! What the designs have in common, and ours.

use freezeframe_monitor::{Activity, Beacon, Monitor};
use std::error::Error;
use std::sync::mpsc::Sender;

/// What a loop does in its turn.
pub(super) type Work = Box<dyn FnOnce() + Send>;

/// A monitor of the calling thread's loop.
pub(super) trait Design: Sized + 'static {
    const NAME: &'static str;

    /// On the loop's thread. `queue` takes work for the loop.
    fn start(queue: &Sender<Work>) -> Result<Self, Box<dyn Error>>;

    /// On the loop's thread: what it is about to do.
    fn tell(&self, activity: Activity);

    /// Freezes that it has noticed.
    fn freezes(&self) -> u64;
}

/// Ours.
pub(super) struct Ours {
    monitor: Monitor,
    beacon: Beacon,
}

impl Design for Ours {
    const NAME: &'static str = "freezeframe";

    fn start(_: &Sender<Work>) -> Result<Self, Box<dyn Error>> {
        let (monitor, beacon) = Monitor::builder("bench").watch_run_loop()?;
        Ok(Self { monitor, beacon })
    }

    fn tell(&self, activity: Activity) {
        self.beacon.transition(activity);
    }

    fn freezes(&self) -> u64 {
        self.monitor.statistics().freezes
    }
}
