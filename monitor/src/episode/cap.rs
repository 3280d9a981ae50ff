//! How many records a day.

const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;

/// Lets so many pass in each day, counted from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DailyCap {
    limit: u32,
    begun_ns: u64,
    passed: u32,
}

impl DailyCap {
    pub(crate) const fn new(limit: u32) -> Self {
        Self { limit, begun_ns: 0, passed: 0 }
    }

    /// Whether one more may pass at a time of the clock that goes on while the system sleeps.
    pub(crate) const fn pass(&mut self, now_ns: u64) -> bool {
        if self.passed == 0 || now_ns.saturating_sub(self.begun_ns) >= DAY_NS {
            (self.begun_ns, self.passed) = (now_ns, 0);
        }
        if self.passed >= self.limit {
            return false;
        }
        self.passed += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_lets_as_many_pass_as_it_may_and_the_next_day_begins_anew() {
        let mut cap = DailyCap::new(3);
        let hour = |hour: u64| hour * 3600 * 1_000_000_000 + 5;
        let passed: Vec<bool> = (1..=5).map(|n| cap.pass(hour(n))).collect();
        assert_eq!(passed, [true, true, true, false, false]);
        assert!(!cap.pass(hour(25) - 1) && cap.pass(hour(25)), "a day after the first");
        assert!(!DailyCap::new(0).pass(1));
    }
}
