//! A process that takes much of the processors for long: tracked from one look above the level on, dropped when the average
//! since then falls below half of it, told when that has gone on for long enough.

/// How much CPU time, for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuLimit {
    /// In percent of one processor.
    pub(crate) percent: u32,
    /// For how long, in nanoseconds.
    pub(crate) for_ns: u64,
}

/// What a look has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuStep {
    /// It does not take much.
    Fine,
    /// From here on it is tracked.
    Tracked,
    /// It has taken much for so long as was set, since then: with its CPU time in that time.
    Began { since_ns: u64, cpu_ns: u64 },
    /// It still does.
    Lasts { duration_ns: u64 },
    /// It does not any more.
    Ended { duration_ns: u64 },
}

/// Notices that a process takes much of the processors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuHigh {
    limit: CpuLimit,
    /// The look before: when, and the process's CPU time.
    last: Option<(u64, u64)>,
    /// Where tracking began.
    tracked: Option<(u64, u64)>,
    told: bool,
}

/// How far two looks lie apart, at least.
pub(crate) const LOOK_EVERY_NS: u64 = 1_000_000_000;

impl CpuHigh {
    pub(crate) const fn new(limit: CpuLimit) -> Self {
        Self { limit, last: None, tracked: None, told: false }
    }

    /// When the next look is due.
    pub(crate) fn due_ns(&self) -> u64 {
        self.last.map_or(0, |(at, _)| at.saturating_add(LOOK_EVERY_NS))
    }

    /// One look, at the CPU time that all threads have had.
    pub(crate) fn look(&mut self, now_ns: u64, cpu_ns: u64) -> CpuStep {
        let Some((at, before)) = self.last.replace((now_ns, cpu_ns)) else { return CpuStep::Fine };
        // So late that the system slept, or the process was stopped: it says nothing.
        if now_ns.saturating_sub(at) > 4 * LOOK_EVERY_NS {
            return self.forget(at);
        }
        let percent = |since: (u64, u64)| {
            let time = now_ns.saturating_sub(since.0).max(1);
            u128::from(cpu_ns.saturating_sub(since.1)) * 100 / u128::from(time)
        };
        let level = u128::from(self.limit.percent);
        let Some(tracked) = self.tracked else {
            if percent((at, before)) < level {
                return CpuStep::Fine;
            }
            self.tracked = Some((at, before));
            return CpuStep::Tracked;
        };
        // What has been told ends when the latest look says so: by the average that would take as long as it has lasted.
        let is_over = percent(tracked) * 2 < level || self.told && percent((at, before)) * 2 < level;
        let duration_ns = now_ns.saturating_sub(tracked.0);
        match (is_over, self.told) {
            (true, _) => self.forget(now_ns),
            (false, true) => CpuStep::Lasts { duration_ns },
            (false, false) if duration_ns >= self.limit.for_ns => {
                self.told = true;
                CpuStep::Began { since_ns: tracked.0, cpu_ns: cpu_ns.saturating_sub(tracked.1) }
            }
            (false, false) => CpuStep::Fine,
        }
    }

    fn forget(&mut self, until_ns: u64) -> CpuStep {
        let since = self.tracked.take().map_or(until_ns, |tracked| tracked.0);
        match std::mem::replace(&mut self.told, false) {
            true => CpuStep::Ended { duration_ns: until_ns.saturating_sub(since) },
            false => CpuStep::Fine,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// The steps other than `Fine`, for CPU shares in percent, one a second.
    fn steps(shares: &[u64]) -> Vec<(usize, CpuStep)> {
        let mut high = CpuHigh::new(CpuLimit { percent: 80, for_ns: 60 * S });
        let mut cpu = 0;
        high.look(0, 0);
        let steps = shares.iter().enumerate().map(|(second, share)| {
            cpu += share * S / 100;
            (second + 1, high.look((second as u64 + 1) * S, cpu))
        });
        steps.filter(|(_, step)| *step != CpuStep::Fine).collect()
    }

    #[test]
    fn a_minute_above_the_level_is_told_once_and_ends() {
        let mut shares = vec![10; 5];
        shares.extend([90; 70]);
        shares.extend([5; 5]);
        let steps = steps(&shares);
        assert_eq!(steps[0], (6, CpuStep::Tracked));
        assert_eq!(steps[1], (65, CpuStep::Began { since_ns: 5 * S, cpu_ns: 54 * S }));
        assert_eq!(steps[2], (66, CpuStep::Lasts { duration_ns: 61 * S }));
        assert_eq!(*steps.last().unwrap(), (76, CpuStep::Ended { duration_ns: 71 * S }));
    }

    #[test]
    fn one_peak_is_dropped_when_the_average_falls_below_half() {
        let mut shares = vec![90];
        shares.extend([20; 120]);
        assert_eq!(steps(&shares), [(1, CpuStep::Tracked)]);
    }

    #[test]
    fn a_dip_does_not_end_the_tracking_while_the_average_stays_up() {
        let mut shares = vec![100; 30];
        shares.extend([30; 10]);
        shares.extend([100; 30]);
        assert!(matches!(steps(&shares)[1], (60, CpuStep::Began { .. })));
    }
}
