//! All threads of the process at one time, in memory that the caller owns.

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
mod capture;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod crash;
mod storage;
mod thread;

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub use capture::{Options, SnapshotError};
pub use storage::{Snapshot, View};
pub use thread::{Held, ThreadCapture};
