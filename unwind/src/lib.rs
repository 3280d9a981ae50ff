//! Stops a thread, copies its stack through the kernel, and walks the copy.
#![no_std]

pub mod images;
pub mod memory;
pub mod rule;
mod sys;
pub mod tables;
pub mod walk;
