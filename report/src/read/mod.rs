//! Reading a report file. Nothing in it is believed: every offset is bounded, every checksum compared, and a record is
//! called complete only if all of it is.

mod crash;
mod cursor;
mod decode;
mod episode;
mod geometry;
mod locks;
mod record;
mod report;
mod samples;
mod slot;
mod told;
mod vitals;

pub use crash::{CrashInfo, SenderInfo};
pub use episode::{CauseKind, EpisodeInfo, EvidenceInfo, SeverityLevel};
pub(crate) use geometry::{Geometry, read_at, read_geometry};
pub use record::{
    Dropped, Frame, HeldHow, Image, Record, RecordKind, RecordOutcome, RecordStrategy, Repeat, Repeats, Stop,
    Symbol, SystemCall, SystemInfo, Thread, Threshold, Times,
};
pub use record::{HeldInfo, LockInfo, LockOwner, LockStep, ProcessInfo, SetHow, SetInfo};
pub use report::{Report, Torn};
pub use samples::{SampleInfo, SamplesInfo, StackInfo};
pub use told::{CrumbInfo, ToldInfo};
pub use vitals::{CpuInfo, MemoryInfo, PressureInfo, VitalsInfo};
