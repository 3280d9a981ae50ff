//! From a snapshot to the bytes of a record: `no_std`, no allocation, signal-safe.

mod about;
mod crash;
mod encoder;
mod sections;
mod writer;

pub use about::{About, AppState, Kind, Process, Strategy, System};
#[cfg(feature = "std")]
pub(crate) use crash::known as crash_known;
pub use crash::{Crash, Sender};
pub use encoder::{Encoded, encode};
#[cfg(feature = "std")]
pub(crate) use sections::{flags as thread_flags, image_flags};
