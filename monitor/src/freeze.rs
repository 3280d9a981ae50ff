//! What the program hears of a freeze.

use std::time::Duration;

/// A freeze, as the callback sees it. The callback runs on the watcher's thread, while the loop may still be frozen: it
/// must not wait for the loop.
#[derive(Clone, Debug)]
pub struct Freeze<'a> {
    /// Which part of the program is watched.
    pub component: &'a str,
    /// What has happened.
    pub phase: Phase,
    /// How long the loop has been silent, or was.
    pub duration: Duration,
    /// How long after the threshold the freeze was noticed; zero at the end of a freeze.
    pub detection_delay: Duration,
    /// The number of the record in the report file; none without a file.
    ///
    /// # Errors
    /// Why there is no record.
    pub record: Result<Option<u64>, String>,
}

/// A point in a freeze's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The threshold has passed. The stacks were taken just now.
    Detected,
    /// The loop has turned again.
    Recovered,
    /// The monitor was stopped or paused before the end.
    Lost,
}
