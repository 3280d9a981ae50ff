//! The adapter of CFRunLoop, on CoreFoundation where that is at hand, and elsewhere on a loop that behaves like it.
//!
//! Every test has its thread's own loop. Bounds on real time are wide: they tell a bounded wait from a hang.
//!
//! With the open-source CoreFoundation at hand, these tests run on that as well: with `--cfg core_foundation_linked` and the
//! linker's options for it in `RUSTFLAGS`.
#![cfg(any(target_vendor = "apple", feature = "core-foundation"))]

mod freezes;
mod life;
mod nesting;
mod order;
mod passes;
mod pings;
#[cfg(not(any(target_vendor = "apple", core_foundation_linked)))]
mod queues;
#[cfg(not(any(target_vendor = "apple", core_foundation_linked)))]
mod scripted;
mod stage;
