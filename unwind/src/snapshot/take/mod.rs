//! Reading the threads of a snapshot, in each system's ways.

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod hall;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(target_vendor = "apple")]
mod mach;
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
mod stop;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) use hall::Hall;
#[cfg(any(target_os = "linux", target_os = "android"))]
use linux::stopped;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use linux::{Hall, Look, Taker};
#[cfg(target_vendor = "apple")]
pub(super) use mach::Taker;
#[cfg(target_vendor = "apple")]
use mach::stopped;
