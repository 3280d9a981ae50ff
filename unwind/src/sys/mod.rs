//! The operating system, without a lock that another thread may hold and without allocation, so that all of it may run in
//! a signal handler, and in a program whose heap is corrupted. On Linux these are system calls without a C library, which
//! touch neither `errno` nor TLS; on Apple systems, whose system calls are no interface, the functions of libSystem that
//! are Mach calls.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod fields;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(target_vendor = "apple")]
mod mach;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use fields::{decimal, field_after_last_paren, hexadecimal};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use linux::*;
#[cfg(target_vendor = "apple")]
pub(crate) use mach::*;
