//! All threads of the process at one time, in memory that the caller owns.

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
mod capture;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod crash;
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
mod frames;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod outside;
mod storage;
mod take;
mod thread;
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
mod walks;

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub use capture::{Options, SnapshotError};
pub use storage::{Set, Snapshot, View};
pub use thread::{Held, ThreadCapture};
