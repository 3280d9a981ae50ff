//! The threads of this process: which there are, and what the kernel says of each.

mod facts;
#[cfg(target_os = "linux")]
mod linux;

pub use facts::{RunState, SystemCall, ThreadFacts, ThreadId, ThreadName};
#[cfg(target_os = "linux")]
pub use linux::{ThreadsError, current, facts, list};
#[cfg(target_os = "linux")]
pub(crate) use linux::{blocks_signal, each, open, open_list};
