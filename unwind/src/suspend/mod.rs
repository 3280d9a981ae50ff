//! Stopping a thread for as long as it takes to copy its stack, and letting it go whatever happens.

#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
pub(crate) use linux::install;
#[cfg(target_os = "linux")]
pub use linux::{Patience, Registration, Release, Session, SuspendError, Suspended, Suspender};
