//! System calls without a C library: nothing here touches `errno`, TLS or a lock, so all of it may run in a signal
//! handler, and in a program whose heap is corrupted.

mod fields;
#[cfg(target_os = "linux")]
mod linux;

pub(crate) use fields::{decimal, field_after_last_paren, hexadecimal};
#[cfg(target_os = "linux")]
pub(crate) use linux::*;
