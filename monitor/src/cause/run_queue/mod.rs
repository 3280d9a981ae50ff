//! How long a thread has waited for a processor.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(target_vendor = "apple")]
mod mach;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use linux::waited_ns;
#[cfg(target_vendor = "apple")]
pub(crate) use mach::waited_ns;
