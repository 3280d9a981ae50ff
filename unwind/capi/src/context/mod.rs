//! What differs between systems: the setting up, and registers that a signal has interrupted.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(target_vendor = "apple")]
mod mach;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use linux::{capture_all, config, registers};
#[cfg(target_vendor = "apple")]
pub(crate) use mach::{capture_all, config, registers};
