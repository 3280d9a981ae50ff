//! Verdicts beside the freeze: a loop that turns but never waits, a process that takes much of the processors. Pure.

mod cpu_high;
mod never_idle;

pub(crate) use cpu_high::{CpuHigh, CpuLimit, CpuStep};
pub(crate) use never_idle::{IdleStep, NeverIdle};
