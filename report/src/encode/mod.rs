//! From a snapshot to the bytes of a record: `no_std`, no allocation, signal-safe.

mod about;
mod crash;
mod encoder;
mod episode;
mod sections;
mod tail;
mod told;
mod writer;

pub use about::{About, AppState, Kind, Process, Strategy, System};
#[cfg(feature = "std")]
pub(crate) use crash::known as crash_known;
pub use crash::{Crash, Sender};
pub use encoder::{Encoded, encode};
pub use episode::{Cause, Episode, Evidence, EvidenceKind, Severity, labels};
#[cfg(feature = "std")]
pub(crate) use sections::{flags as thread_flags, image_flags};
pub use tail::{NO_NODE, Node, Sample, Samples, encode_tail};
pub use told::{Crumb, Told};
