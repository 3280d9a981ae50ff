//! From CPU times to shares: each look is compared with the one before. Pure.

use super::CpuShare;
use freezeframe_unwind::threads::ThreadId;

/// A thread that computes.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadCpu {
    /// Its id.
    pub thread: ThreadId,
    /// Its name; empty if it has none, or has just ended.
    pub name: String,
    /// Its CPU time since the look before.
    pub cpu: CpuShare,
}

/// How many threads are told of.
const BUSIEST: usize = 8;

/// The CPU time of something that does not end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    /// When it was read last, and what it was.
    last: Option<(u64, u64)>,
}

impl Meter {
    /// What was computed since the look before; none at the first look.
    pub(super) fn look(&mut self, now_ns: u64, cpu_ns: u64) -> Option<CpuShare> {
        let (then_ns, before_ns) = self.last.replace((now_ns, cpu_ns))?;
        Some(CpuShare { cpu_ns: cpu_ns.saturating_sub(before_ns), window_ns: now_ns.saturating_sub(then_ns) })
    }
}

/// The CPU times of threads, which come and go.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadMeters {
    last_ns: Option<u64>,
    /// Those of the look before, by id.
    before: Vec<(ThreadId, u64)>,
    now: Vec<(ThreadId, u64)>,
}

impl ThreadMeters {
    /// The threads that have computed most since the look before, the busiest first; none at the first look. A thread that
    /// is new since then has computed all of its time meanwhile.
    pub(super) fn look(
        &mut self,
        now_ns: u64,
        times: impl Iterator<Item = (ThreadId, u64)>,
    ) -> Option<Vec<(ThreadId, CpuShare)>> {
        self.now.clear();
        self.now.extend(times);
        self.now.sort_unstable();
        let busiest = self.last_ns.map(|then_ns| self.busiest(now_ns.saturating_sub(then_ns)));
        std::mem::swap(&mut self.before, &mut self.now);
        self.last_ns = Some(now_ns);
        busiest
    }

    fn busiest(&self, window_ns: u64) -> Vec<(ThreadId, CpuShare)> {
        let since = |&(thread, cpu_ns): &(ThreadId, u64)| {
            let known = self.before.binary_search_by_key(&thread, |known| known.0);
            let before_ns = known.ok().and_then(|at| self.before.get(at)).map_or(0, |known| known.1);
            // An id that was given to a new thread: its time began anew.
            let cpu_ns = cpu_ns.checked_sub(before_ns).unwrap_or(cpu_ns);
            (thread, CpuShare { cpu_ns, window_ns })
        };
        let mut busiest: Vec<_> = self.now.iter().map(since).filter(|(_, cpu)| cpu.cpu_ns > 0).collect();
        busiest.sort_by_key(|(_, cpu)| std::cmp::Reverse(cpu.cpu_ns));
        busiest.truncate(BUSIEST);
        busiest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_share_is_the_time_between_two_looks() {
        let mut meter = Meter::default();
        assert_eq!(meter.look(5_000 * MS, 700 * MS), None, "there is nothing to compare with");
        let share = meter.look(6_000 * MS, 2_200 * MS).unwrap();
        assert_eq!((share.cpu_ns, share.window_ns), (1_500 * MS, 1_000 * MS));
        assert_eq!(share.percent(), 150.0);
        assert_eq!(meter.look(8_000 * MS, 2_200 * MS).unwrap().percent(), 0.0);
        assert_eq!(meter.look(8_500 * MS, 2_325 * MS).unwrap().percent(), 25.0);
    }

    #[test]
    fn the_busiest_threads_come_first_whenever_they_began() {
        let mut meters = ThreadMeters::default();
        let id = ThreadId;
        assert_eq!(meters.look(0, [(id(7), 900), (id(3), 100), (id(5), 50)].into_iter()), None);
        // 3 has computed most since, 5 nothing; 9 is new; 7 has ended, and its id was given to another.
        let times = [(id(9), 300), (id(3), 500), (id(7), 20), (id(5), 50)];
        let busiest = meters.look(1_000, times.into_iter()).unwrap();
        let told: Vec<_> = busiest.iter().map(|(thread, cpu)| (thread.0, cpu.cpu_ns)).collect();
        assert_eq!(told, [(3, 400), (9, 300), (7, 20)]);
        assert!(busiest.iter().all(|(_, cpu)| cpu.window_ns == 1_000));
        let busiest = meters.look(3_000, [(id(9), 301)].into_iter()).unwrap();
        assert_eq!(busiest, [(id(9), CpuShare { cpu_ns: 1, window_ns: 2_000 })]);
    }

    #[test]
    fn of_a_thousand_threads_eight_are_told_of() {
        let mut meters = ThreadMeters::default();
        meters.look(0, (0..1000).map(|n| (ThreadId(n), 0)));
        let busiest = meters.look(100, (0..1000).map(|n| (ThreadId(n), (n as u64 * 37) % 1000))).unwrap();
        let times: Vec<u64> = busiest.iter().map(|(_, cpu)| cpu.cpu_ns).collect();
        assert_eq!(times, [999, 998, 997, 996, 995, 994, 993, 992]);
    }
}
