//! The adapter of CFRunLoop, on CoreFoundation where that is at hand, and elsewhere on a loop that behaves like it.
//!
//! Every test has its thread's own loop. Bounds on real time are wide: they tell a bounded wait from a hang.
#![cfg(any(target_vendor = "apple", feature = "core-foundation"))]

mod freezes;
mod life;
mod nesting;
mod order;
mod passes;
mod pings;
#[cfg(not(target_vendor = "apple"))]
mod queues;
#[cfg(not(target_vendor = "apple"))]
mod scripted;
mod stage;
