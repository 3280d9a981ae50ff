//! `freezeframe run` and `freezeframe attach`: watching a program that knows nothing of it.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{attach, run};
#[cfg(target_os = "linux")]
pub(crate) use linux::{attach, run};
