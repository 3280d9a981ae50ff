//! The decision: a pure state machine, driven by a clock and by what the beacon says.

mod detector;
#[cfg(test)]
mod tests;

pub use detector::{Detector, Next, Reading, Step, Threshold, Verdict};
