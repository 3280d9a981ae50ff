//! How long something takes.

use serde::Serialize;
use std::time::{Duration, Instant};

/// One operation's cost, in ns: in the best of many batches, and in the median one.
///
/// The best is what the code needs; whatever else the machine does only adds to it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Cost {
    pub(crate) best_ns: f64,
    pub(crate) median_ns: f64,
}

impl Cost {
    /// Of what could not be measured.
    pub(crate) const NONE: Self = Self { best_ns: f64::NAN, median_ns: f64::NAN };

    /// The cost of each of `parts` that one operation consists of.
    pub(crate) fn per(self, parts: usize) -> Self {
        let parts = parts as f64;
        Self { best_ns: self.best_ns / parts, median_ns: self.median_ns / parts }
    }
}

/// Short, so that many a batch passes between two interruptions.
const BATCH: Duration = Duration::from_micros(200);
const BATCHES: usize = 1000;

/// What a call of `operation` costs.
pub(crate) fn cost_of(mut operation: impl FnMut()) -> Cost {
    let mut calls = 1u32;
    while time(&mut operation, calls) < BATCH {
        calls *= 2;
    }
    best_of(BATCHES, || time(&mut operation, calls).as_nanos() as f64 / f64::from(calls))
}

/// Of `batches`, each of which says what one operation took it, in ns.
pub(crate) fn best_of(batches: usize, batch: impl FnMut() -> f64) -> Cost {
    let mut costs: Vec<f64> = std::iter::repeat_with(batch).take(batches).collect();
    costs.sort_by(f64::total_cmp);
    Cost { best_ns: costs[0], median_ns: costs[costs.len() / 2] }
}

fn time(operation: &mut impl FnMut(), calls: u32) -> Duration {
    let began = Instant::now();
    for _ in 0..calls {
        operation();
    }
    began.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_and_the_median_batch_are_told_apart() {
        let mut costs = [5.0, 1.0, 9.0].into_iter();
        let cost = best_of(3, || costs.next().unwrap());
        assert_eq!((cost.best_ns, cost.median_ns), (1.0, 5.0));
        assert_eq!(cost.per(2).best_ns, 0.5);
    }
}
