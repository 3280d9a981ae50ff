//! A loop that turns, but has not waited for long: a livelock, or more work than it can do.

/// What a look has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdleStep {
    /// It has waited not long ago. So long ago, in nanoseconds.
    Fine(u64),
    /// It has not waited since then, for as long as was set.
    Began { since_ns: u64 },
    /// It still has not.
    Lasts { duration_ns: u64 },
    /// It has waited again: so long after the wait before.
    Ended { duration_ns: u64 },
}

/// Notices that a loop never waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NeverIdle {
    limit_ns: u64,
    /// Looks that lie further apart say nothing of the time between: the process was stopped.
    gap_ns: u64,
    last_ns: u64,
    /// Time before this does not count: a freeze, a pause, or time in which nobody watched.
    from_ns: u64,
    since_ns: Option<u64>,
}

impl NeverIdle {
    pub(crate) const fn new(limit_ns: u64, gap_ns: u64, now_ns: u64) -> Self {
        Self { limit_ns, gap_ns, last_ns: now_ns, from_ns: now_ns, since_ns: None }
    }

    pub(crate) const fn limit_ns(&self) -> u64 {
        self.limit_ns
    }

    /// Forgets the time before: another verdict is about that, or nobody has watched it. Returns how long the episode lasted
    /// that goes on, if one does.
    pub(crate) fn start_afresh(&mut self, now_ns: u64) -> Option<u64> {
        (self.from_ns, self.last_ns) = (now_ns, now_ns);
        self.since_ns.take().map(|since| now_ns.saturating_sub(since))
    }

    /// The watcher has done its work: the time that this took is none in which nobody watched.
    pub(crate) const fn wait_from(&mut self, now_ns: u64) {
        self.last_ns = now_ns;
    }

    /// One look: when the loop last came back from a wait.
    pub(crate) fn look(&mut self, now_ns: u64, waited_ns: u64) -> IdleStep {
        let last_ns = std::mem::replace(&mut self.last_ns, now_ns);
        if now_ns.saturating_sub(last_ns) > self.gap_ns {
            self.from_ns = now_ns;
            if let Some(since) = self.since_ns.take() {
                return IdleStep::Ended { duration_ns: last_ns.saturating_sub(since) };
            }
        }
        if let Some(since) = self.since_ns {
            if waited_ns > since {
                self.since_ns = None;
                return IdleStep::Ended { duration_ns: waited_ns.saturating_sub(since) };
            }
            return IdleStep::Lasts { duration_ns: now_ns.saturating_sub(since) };
        }
        let since_ns = waited_ns.max(self.from_ns);
        let lasted = now_ns.saturating_sub(since_ns);
        if lasted < self.limit_ns {
            return IdleStep::Fine(lasted);
        }
        self.since_ns = Some(since_ns);
        IdleStep::Began { since_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_does_not_wait_for_as_long_as_was_set_is_one_episode_until_it_waits() {
        let mut never = NeverIdle::new(1000, 10_000, 0);
        assert_eq!(never.look(900, 500), IdleStep::Fine(400));
        assert_eq!(never.look(1499, 500), IdleStep::Fine(999));
        assert_eq!(never.look(1500, 500), IdleStep::Began { since_ns: 500 });
        assert_eq!(never.look(2000, 500), IdleStep::Lasts { duration_ns: 1500 });
        assert_eq!(never.look(2100, 2050), IdleStep::Ended { duration_ns: 1550 });
        assert_eq!(never.look(2200, 2050), IdleStep::Fine(150));
    }

    #[test]
    fn time_that_another_verdict_is_about_does_not_count() {
        let mut never = NeverIdle::new(1000, 10_000, 0);
        assert_eq!(never.start_afresh(5000), None);
        assert_eq!(never.look(5900, 10), IdleStep::Fine(900));
        assert_eq!(never.look(6000, 10), IdleStep::Began { since_ns: 5000 });
        assert_eq!(never.start_afresh(6100), Some(1100), "a freeze begins in the middle of it");
    }

    #[test]
    fn time_in_which_nobody_looked_is_no_livelock() {
        let mut never = NeverIdle::new(1000, 200, 0);
        for at in (0..900).step_by(50) {
            assert!(matches!(never.look(at, 0), IdleStep::Fine(_)));
        }
        assert_eq!(never.look(9000, 0), IdleStep::Fine(0), "it was stopped in between");
        let steps: Vec<_> = (1..=20).map(|n| never.look(9000 + n * 50, 0)).collect();
        assert_eq!(steps[19], IdleStep::Began { since_ns: 9000 });
        assert_eq!(never.look(20_000, 0), IdleStep::Ended { duration_ns: 1000 });
    }
}
