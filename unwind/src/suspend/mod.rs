//! Stopping a thread for as long as it takes to copy its stack, and letting it go whatever happens.

mod error;
pub mod exempt;
mod hold;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) mod linux;
#[cfg(target_vendor = "apple")]
mod mach;
mod ways;

pub use error::SuspendError;
pub use hold::{Patience, Release};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use linux::install;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use linux::{Registration, Session, Suspended, Suspender};
#[cfg(target_vendor = "apple")]
pub use mach::{Session, Suspended, Suspender};
pub use ways::{Purpose, Way, Ways};
