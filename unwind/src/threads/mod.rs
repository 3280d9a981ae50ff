//! The threads of a process, of this one mostly: which there are, and what the kernel says of each.

mod facts;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(target_vendor = "apple")]
mod mach;

pub use facts::{RunState, SystemCall, ThreadFacts, ThreadId, ThreadName};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use linux::{Hurry, ThreadsError, cpu_time, current, facts, facts_of, hurry, list, list_of};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use linux::{
    Listing, STOPPING_DISTURBS, blocks_signal, each, is_alive, is_alive_in, is_main, open, open_list,
    reserve, system_call, tracer_of,
};
#[cfg(target_vendor = "apple")]
pub(crate) use mach::{Listing, STOPPING_DISTURBS, is_alive, is_main, system_wide_id};
#[cfg(target_vendor = "apple")]
pub use mach::{ThreadsError, cpu_time, current, facts, list};
