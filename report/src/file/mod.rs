//! The file on disk: made whole before it is used, held by one process at a time.

#[cfg(target_vendor = "apple")]
mod apple;
mod create;
mod error;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
mod opened;

#[cfg(target_vendor = "apple")]
use apple as system;
#[cfg(any(target_os = "linux", target_os = "android"))]
use linux as system;

pub use error::FileError;
pub use opened::{Handle, ReportFile, Size};
