//! Where the figures come from.

use serde::Serialize;
use std::fmt;

/// The machine, and how busy it was when the run began: figures of a busy machine are worth little.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    processor: String,
    processors: usize,
    kernel: String,
    load: String,
}

impl Machine {
    /// What cannot be read is left empty.
    pub(crate) fn read() -> Self {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            processor: processor.map(|(_, name)| name.to_owned()).unwrap_or_default(),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            load: load.split(' ').next().unwrap_or_default().to_owned(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, processors, kernel, load } = self;
        write!(f, "{processor} × {processors}, Linux {kernel}, load {load}")
    }
}
