//! What a program asks for.

use super::round::{Asked, Round};
use super::{AvailableMemory, CpuShare, Frames, MemoryPressure, OpenFiles, ProcessMemory, ThreadCpu, Vitals};
use std::time::Duration;

/// What is to be told, and to whom. See [`Vitals::builder`].
#[must_use]
pub struct Builder {
    interval: Duration,
    asked: Asked,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("interval", &self.interval).finish_non_exhaustive()
    }
}

impl Builder {
    pub(super) fn new() -> Self {
        Self { interval: Duration::from_secs(1), asked: Asked::default() }
    }

    /// How often it is told. The default is every second, the least 10 ms.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval.max(Duration::from_millis(10));
        self
    }

    /// The CPU time of all threads since the look before: from the second look on.
    pub fn on_process_cpu(mut self, mut callback: impl FnMut(CpuShare) + Send + 'static) -> Self {
        self.asked.process_cpu = Some(Box::new(move |share| callback(*share)));
        self
    }

    /// The threads that have had most CPU time since the look before, the busiest first, at most eight of them: from the
    /// second look on. Costs a clock's read for each thread at each look, and a look-up of eight names.
    pub fn on_thread_cpu(mut self, callback: impl FnMut(&[ThreadCpu]) + Send + 'static) -> Self {
        self.asked.threads = Some(Box::new(callback));
        self
    }

    /// The memory that the process takes.
    pub fn on_memory(mut self, mut callback: impl FnMut(ProcessMemory) + Send + 'static) -> Self {
        self.asked.memory = Some(Box::new(move |memory| callback(*memory)));
        self
    }

    /// The memory that the machine has, used and available; or what a limit leaves of it, if that is less.
    pub fn on_available_memory(mut self, mut callback: impl FnMut(AvailableMemory) + Send + 'static) -> Self {
        self.asked.available = Some(Box::new(move |memory| callback(*memory)));
        self
    }

    /// How scarce memory is. Not called on a system that does not tell: a Linux without `/proc/pressure`.
    pub fn on_memory_pressure(mut self, mut callback: impl FnMut(MemoryPressure) + Send + 'static) -> Self {
        self.asked.pressure = Some(Box::new(move |pressure| callback(*pressure)));
        self
    }

    /// The frames that were drawn in the second before: from the first one on. Zero while nothing is drawn.
    pub fn on_frames(mut self, frames: &Frames, mut callback: impl FnMut(f64) + Send + 'static) -> Self {
        self.asked.frames = Some((frames.clone(), Box::new(move |rate| callback(*rate))));
        self
    }

    /// How many files, sockets and so on are open. Those of this crate count.
    pub fn on_open_files(mut self, mut callback: impl FnMut(OpenFiles) + Send + 'static) -> Self {
        self.asked.files = Some(Box::new(move |files| callback(*files)));
        self
    }

    /// Starts to tell, with a first look at once.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(self) -> std::io::Result<Vitals> {
        if self.asked.is_nothing() {
            return Ok(Vitals::nothing());
        }
        Vitals::run(self.interval, Round::new(self.asked))
    }
}
