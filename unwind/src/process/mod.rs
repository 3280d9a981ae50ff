//! Which process is looked at: the calling one, or another one from outside.

mod linux;

pub use linux::ProcessId;
