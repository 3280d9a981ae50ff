//! One kind of episode of a loop, at most one of which is open at a time.

use crate::cause::Finding;
use crate::record::Occasion;
use crate::sampler::Sampler;
use crate::watch::Why;
use freezeframe_report::encode::{Kind, Severity, labels};
use freezeframe_report::ring::Slot;

/// Episodes of one kind.
pub(crate) struct Track {
    pub(crate) kind: Kind,
    pub(crate) sampler: Sampler,
    /// The episode that goes on.
    pub(crate) open: Option<Open>,
    /// What it is concluded from, where that is not the samples.
    pub(crate) found: Option<Finding>,
}

impl Track {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, sampler: Sampler::new(), open: None, found: None }
    }

    /// Notes that the process was stopped, or starved, in the middle of the episode. True if that is news.
    pub(crate) fn note_late(&mut self, late_ticks: u64) -> bool {
        let Some(open) = self.open.as_mut().filter(|_| late_ticks > 0) else { return false };
        let news = open.labels & labels::STOPPED == 0;
        open.labels |= labels::STOPPED;
        news
    }

    /// What is known of the cause.
    pub(crate) fn finding(&self) -> &Finding {
        self.found.as_ref().unwrap_or_else(|| self.sampler.finding())
    }
}

/// The episode that goes on.
pub(crate) struct Open {
    pub(crate) occasion: Occasion,
    /// Its record's place; none if it has no record of its own.
    pub(crate) slot: Option<Slot>,
    /// What the program hears of its record.
    pub(crate) heard: Result<Option<u64>, String>,
    /// Whether the program's filter wants it.
    pub(crate) wanted: bool,
    /// Whether the program hears of it.
    pub(crate) told: bool,
    /// Whether it is counted in an earlier record.
    pub(crate) counted: bool,
    pub(crate) severity: Severity,
    /// The folded stack that weighed most when it was wanted.
    pub(crate) stack: Option<u64>,
    pub(crate) labels: u32,
    pub(crate) expected: Why,
}

impl Open {
    pub(crate) fn new(occasion: Occasion, severity: Severity) -> Self {
        Self {
            occasion,
            slot: None,
            heard: Ok(None),
            wanted: false,
            told: false,
            counted: false,
            severity,
            stack: None,
            labels: 0,
            expected: Why::default(),
        }
    }
}
