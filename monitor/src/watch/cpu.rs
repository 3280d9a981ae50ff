//! The process's CPU time, and whose it is.

use crate::cause::Finding;
use crate::pressure::{CpuHigh, CpuLimit, CpuStep};
use freezeframe_report::encode::{Cause, EvidenceKind};
use freezeframe_unwind::threads::{ThreadId, facts, list};
use rustix::time::{ClockId, clock_gettime};

/// How many threads are told apart.
const THREADS: usize = 1024;
/// How many of them a report names.
const NAMED: usize = 3;

/// Watches the CPU time of all threads. All of its memory is there from the start.
pub(crate) struct CpuWatch {
    high: CpuHigh,
    limit: CpuLimit,
    ids: Vec<ThreadId>,
    /// The threads' CPU times when tracking began.
    before: Vec<(ThreadId, u64)>,
}

impl CpuWatch {
    pub(crate) fn new(limit: CpuLimit) -> Self {
        let before = Vec::with_capacity(THREADS);
        Self { high: CpuHigh::new(limit), limit, ids: vec![ThreadId(0); THREADS], before }
    }

    pub(crate) const fn limit(&self) -> CpuLimit {
        self.limit
    }

    pub(crate) fn due_ns(&self) -> u64 {
        self.high.due_ns()
    }

    /// One look.
    pub(crate) fn look(&mut self, now_ns: u64) -> CpuStep {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let step = self.high.look(now_ns, cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64);
        if step == CpuStep::Tracked {
            self.before.clear();
            let listed = list(&mut self.ids).unwrap_or(0).min(THREADS);
            self.before.extend(self.ids.iter().take(listed).map(|thread| (*thread, facts(*thread).cpu_ns)));
        }
        step
    }

    /// The thread that has computed most since then, and what that is concluded from: CPU time of all, of such a time, and
    /// of those that have had most of it.
    pub(crate) fn busiest(&mut self, cpu_ns: u64, window_ns: u64) -> (Option<ThreadId>, Finding) {
        let mut most = [(ThreadId(0), 0); NAMED];
        let listed = list(&mut self.ids).unwrap_or(0).min(THREADS);
        for thread in self.ids.iter().take(listed) {
            let known = self.before.iter().find(|(known, _)| known == thread);
            let cpu = facts(*thread).cpu_ns.saturating_sub(known.map_or(0, |(_, before)| *before));
            if let Some(place) = most.iter().position(|(_, other)| cpu > *other) {
                most[place..].rotate_right(1);
                most[place] = (*thread, cpu);
            }
        }
        let mut finding = Finding::new(Cause::CpuBound).with(EvidenceKind::CpuShare, cpu_ns, window_ns, "");
        for (thread, cpu) in most.iter().filter(|(_, cpu)| *cpu > 0) {
            finding = finding.with(EvidenceKind::Thread, thread.0 as u32 as u64, *cpu, "");
        }
        (most.first().filter(|(_, cpu)| *cpu > 0).map(|(thread, _)| *thread), finding)
    }
}
