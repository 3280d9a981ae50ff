//! Captures in processes where something is forbidden, exhausted or in the way. Each ends in bounded time, holds what can
//! be had, and says why there is no more. Each in a process of its own, since what is done to it cannot be undone.
#![cfg(any(target_os = "linux", target_os = "android"))]
#![cfg(target_arch = "x86_64")]

#[path = "../common/mod.rs"]
mod common;
mod exhausted;
mod forbidden;
mod harness;
mod in_the_way;
