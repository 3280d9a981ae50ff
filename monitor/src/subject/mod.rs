//! Which process a monitor watches: its own, or on Linux another one from outside. What is asked about a process is asked
//! here, so that everything else needs not know which it is.

#[cfg(target_vendor = "apple")]
mod apple;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;

#[cfg(target_vendor = "apple")]
use apple as platform;
#[cfg(any(target_os = "linux", target_os = "android"))]
use linux as platform;

pub(crate) use platform::{
    Subject, capture, capture_thread, cpu_ns, descriptor_mode, executable, facts, footprint_bytes,
    function_start, is_traced, memory, open, parent, pid, refresh, watched_descriptors,
};
