//! The vitals of a report.

use super::platform::Sources;
use super::{CpuShare, Frames};
use crate::subject::Subject;
use freezeframe_report::encode::Vitals;

/// Reads the vitals when something was detected.
pub(crate) struct AtDetection {
    sources: Sources,
    frames: Option<Frames>,
}

impl AtDetection {
    pub(crate) fn new(subject: Subject, frames: Option<Frames>) -> Self {
        Self { sources: Sources::open(subject), frames }
    }

    /// Reads them. Without a lock or an allocation, which a frozen thread may be in the middle of. `drawn_until_ns` is when
    /// the second ended whose frames matter.
    pub(crate) fn read(&self, cpu: Option<CpuShare>, drawn_until_ns: u64) -> Vitals {
        let rate = self.frames.as_ref().and_then(|frames| frames.per_second(drawn_until_ns));
        Vitals {
            cpu,
            process: self.sources.process_memory(),
            memory: self.sources.available_memory(),
            pressure: self.sources.memory_pressure(),
            files: self.sources.open_files(),
            frames_centi: rate.map(|rate| (rate * 100.0) as u32),
        }
    }
}
