//! What threads have used, as the kernel counts it.

use freezeframe_unwind::threads::ThreadId;
use std::io;
use std::ops::Sub;

/// CPU time, and how often it was given back to wait.
#[derive(Clone, Copy, Default)]
pub(super) struct Usage {
    pub(super) cpu_ns: u64,
    pub(super) wakeups: u64,
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self { cpu_ns: self.cpu_ns - earlier.cpu_ns, wakeups: self.wakeups - earlier.wakeups }
    }
}

impl Usage {
    /// Of all threads but the calling one and the loop's: those of the monitor.
    pub(super) fn of_others(watched: ThreadId) -> io::Result<Self> {
        let this = freezeframe_unwind::threads::current();
        let mut sum = Self::default();
        for task in std::fs::read_dir("/proc/self/task")? {
            let task = task?.path();
            let id = task.file_name().and_then(|name| name.to_str()?.parse().ok()).map(ThreadId);
            if id.is_none_or(|id| id == this || id == watched) {
                continue;
            }
            let scheduled = std::fs::read_to_string(task.join("schedstat"))?;
            sum.cpu_ns += number(scheduled.split(' ').next())?;
            let status = std::fs::read_to_string(task.join("status"))?;
            sum.wakeups +=
                number(status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")))?;
        }
        Ok(sum)
    }
}

fn number(text: Option<&str>) -> io::Result<u64> {
    text.and_then(|text| text.trim().parse().ok()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "the kernel does not count what threads use")
    })
}
