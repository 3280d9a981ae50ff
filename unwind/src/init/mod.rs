//! What has to be set up once, before anything is captured. The only functions of this crate that allocate resources
//! of the process, or that may lock.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(target_vendor = "apple")]
mod mach;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub use linux::{Config, InitError, init, pac_mask};
#[cfg(target_vendor = "apple")]
pub use mach::{Config, InitError, init, pac_mask};
