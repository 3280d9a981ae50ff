//! From a snapshot to the bytes of a record: `no_std`, no allocation, signal-safe.

mod about;
mod encoder;
mod sections;
mod writer;

pub use about::{About, AppState, Kind, Process, Strategy, System};
pub use encoder::{Encoded, encode};
#[cfg(feature = "std")]
pub(crate) use sections::flags as thread_flags;
