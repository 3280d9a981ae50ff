//! How severe a freeze is, by its duration.

use freezeframe_report::encode::Severity;

/// From which duration on a freeze has which severity, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeverityLimits {
    /// A stutter.
    pub micro_ns: u64,
    /// A freeze.
    pub freeze_ns: u64,
    /// A long freeze.
    pub severe_ns: u64,
    /// The system would call the program unresponsive.
    pub unresponsive_ns: u64,
}

impl Default for SeverityLimits {
    /// 250 ms, 500 ms, 2 s, 5 s.
    fn default() -> Self {
        Self {
            micro_ns: 250_000_000,
            freeze_ns: 500_000_000,
            severe_ns: 2_000_000_000,
            unresponsive_ns: 5_000_000_000,
        }
    }
}

impl SeverityLimits {
    /// The severity of a freeze that has lasted so long.
    pub const fn of(&self, duration_ns: u64) -> Severity {
        match duration_ns {
            d if d >= self.unresponsive_ns => Severity::Unresponsive,
            d if d >= self.severe_ns => Severity::Severe,
            d if d >= self.freeze_ns => Severity::Freeze,
            d if d >= self.micro_ns => Severity::Micro,
            _ => Severity::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severity_rises_at_each_limit_and_not_before() {
        let limits = SeverityLimits::default();
        let of = |ms: u64, ns: u64| limits.of(ms * 1_000_000 - ns);
        assert_eq!((of(250, 1), of(250, 0)), (Severity::None, Severity::Micro));
        assert_eq!((of(500, 1), of(500, 0)), (Severity::Micro, Severity::Freeze));
        assert_eq!((of(2000, 1), of(2000, 0)), (Severity::Freeze, Severity::Severe));
        assert_eq!((of(5000, 1), of(5000, 0)), (Severity::Severe, Severity::Unresponsive));
    }
}
