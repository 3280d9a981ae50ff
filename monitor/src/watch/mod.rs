//! The strategies: how a watcher learns whether a loop turns.

mod beacon;
mod board;
mod cpu;
mod expected;
mod parks;
mod ping;
pub(crate) mod source;
mod watcher;

pub use beacon::Beacon;
pub(crate) use beacon::BeaconShared;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use board::Board;
pub(crate) use cpu::CpuWatch;
pub(crate) use expected::Why;
pub use parks::Turn;
pub(crate) use ping::PingSource;
pub use ping::{Ping, PingTarget};
pub(crate) use source::{Control, Source};
pub(crate) use watcher::Watcher;
