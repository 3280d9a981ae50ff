//! Stops a thread, copies its stack through the kernel, and walks the copy.
//!
//! `no_std`, no allocation, no locks that another thread may hold, no panics: for signal handlers, and for processes in
//! which nothing may be trusted any more. Only [`init`] sets anything up.
//!
//! ```text
//! ThreadId ─suspend→ Suspended { registers } ─copy→ StackCopy ─release→ ─walk(images, tables)→ Backtrace ─→ Snapshot
//!       └ released at once: nothing but "registers, copy, release" happens while a thread is held
//! ```
//!
//! From the ground up: [`memory`] reads what may not be there · [`threads`] lists · [`suspend`] holds one thread ·
//! [`images`] knows which code is where · [`rule`] is the equations from a frame to its caller · [`tables`] finds them ·
//! [`walk`] applies them · [`locks`] says whom a thread waits for · [`snapshot`] takes all threads into memory that the caller owns.
//!
//! # Platforms
//! Linux, Android and Apple systems on x86_64 and arm64. Register files, tables and walks of both architectures work everywhere, over bytes.
#![no_std]

pub mod images;
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub mod init;
pub mod locks;
pub mod memory;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub mod process;
pub mod rule;
pub mod snapshot;
pub mod suspend;
mod sync;
mod sys;
pub mod tables;
pub mod threads;
pub mod walk;
