//! Stops a thread, copies its stack through the kernel, and walks the copy.
#![no_std]

pub mod images;
#[cfg(target_os = "linux")]
pub mod init;
pub mod memory;
pub mod rule;
pub mod snapshot;
pub mod suspend;
mod sys;
pub mod tables;
pub mod threads;
pub mod walk;
