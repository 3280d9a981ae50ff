//! All threads of the process at one time, in memory that the caller owns.

#[cfg(target_os = "linux")]
mod capture;
mod storage;
mod thread;

#[cfg(target_os = "linux")]
pub use capture::{Options, SnapshotError};
pub use storage::{Snapshot, View};
pub use thread::{Held, ThreadCapture};
