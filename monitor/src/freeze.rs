//! What the program hears of a freeze.

use freezeframe_report::encode::{Cause, Kind, Severity};
use std::time::Duration;

/// A freeze, as the callback sees it. The callback runs on a thread of the monitor's, while the loop may still be frozen.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Freeze<'a> {
    /// Which part of the program is watched.
    pub component: &'a str,
    /// What it is: a freeze, a loop that never waits, a process that takes much of the processors.
    pub kind: Kind,
    /// What has happened.
    pub phase: Phase,
    /// How long it has lasted.
    pub duration: Duration,
    /// How severe it is by now.
    pub severity: Severity,
    /// Why, as far as that is known by now.
    pub cause: Cause,
    /// How long after the threshold the freeze was noticed; zero later on.
    pub detection_delay: Duration,
    /// Whether it has no record of its own, but is counted in an earlier one of the same stack.
    pub counted: bool,
    /// The number of the record in the report file; none without a file, or if the day has seen its share of records.
    ///
    /// # Errors
    /// Why there is no record.
    pub record: Result<Option<u64>, String>,
}

/// A point in a freeze's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// The threshold has passed. The stacks were taken just now.
    Detected,
    /// It goes on, and is more severe than before.
    Worsened,
    /// The loop has turned again.
    Recovered,
    /// The monitor was stopped or paused before the end.
    Lost,
}

/// A freeze that may become a report, as filters see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// What it is.
    pub kind: Kind,
    /// How long it has lasted.
    pub duration: Duration,
    /// How severe it is by now.
    pub severity: Severity,
    /// Why, as far as that is known.
    pub cause: Cause,
}

/// A [`Freeze`] on its way to the callback.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) candidate: Candidate,
    pub(crate) phase: Phase,
    pub(crate) delay_ns: u64,
    pub(crate) counted: bool,
    pub(crate) record: Result<Option<u64>, String>,
}

impl Heard {
    pub(crate) fn as_freeze<'a>(&self, component: &'a str) -> Freeze<'a> {
        Freeze {
            component,
            kind: self.candidate.kind,
            phase: self.phase,
            duration: self.candidate.duration,
            severity: self.candidate.severity,
            cause: self.candidate.cause,
            detection_delay: Duration::from_nanos(self.delay_ns),
            counted: self.counted,
            record: self.record.clone(),
        }
    }
}
