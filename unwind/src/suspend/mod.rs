//! Stopping a thread for as long as it takes to copy its stack, and letting it go whatever happens.

mod error;
pub mod exempt;
mod hold;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(target_vendor = "apple")]
mod mach;

pub use error::SuspendError;
pub use hold::{Patience, Release};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use linux::install;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use linux::{Registration, Session, Suspended, Suspender};
#[cfg(target_vendor = "apple")]
pub use mach::{Session, Suspended, Suspender};
