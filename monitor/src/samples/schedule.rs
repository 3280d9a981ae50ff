//! When the watched thread is looked at: from 60 % of the threshold on, and then with gaps that grow with the freeze.

/// When the next sample is due, in time that the loop has been silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    next_ns: u64,
}

impl Schedule {
    /// The first is due at 60 % of `threshold_ns`.
    pub(crate) const fn new(threshold_ns: u64) -> Self {
        Self { next_ns: threshold_ns / 5 * 3 }
    }

    /// Whether one is due after so long a silence. The next is due an eighth of that later: 96 samples are half a day.
    pub(crate) const fn is_due(&mut self, silent_ns: u64) -> bool {
        let due = silent_ns >= self.next_ns;
        if due {
            self.next_ns = silent_ns.saturating_add(silent_ns / 8);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sample_is_at_the_third_of_five_ticks_and_gaps_grow() {
        let mut schedule = Schedule::new(250);
        let due: Vec<u64> = (1..=40).map(|tick| tick * 50).filter(|at| schedule.is_due(*at)).collect();
        assert_eq!(due[..6], [150, 200, 250, 300, 350, 400]);
        assert_eq!(due[6..9], [450, 550, 650], "an eighth is more than a tick");
        let mut schedule = Schedule::new(250);
        let in_a_day = (1..=86_400 * 20).filter(|tick| schedule.is_due(tick * 50)).count();
        assert!((90..128).contains(&in_a_day), "{in_a_day} samples in a day");
    }
}
