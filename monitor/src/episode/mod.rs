//! The rules of episodes, without a clock and without a file: how severe, which get a record, how many a day.

mod annealing;
mod cap;
mod severity;

pub(crate) use annealing::Annealing;
pub(crate) use cap::DailyCap;
pub use severity::SeverityLimits;
