//! Reading a report file. Nothing in it is believed: every offset is bounded, every checksum compared, and a record is
//! called complete only if all of it is.

mod crash;
mod cursor;
mod decode;
mod geometry;
mod record;
mod report;
mod slot;

pub use crash::{CrashInfo, SenderInfo};
pub(crate) use geometry::{Geometry, read_at, read_geometry};
pub use record::{
    Dropped, Frame, HeldHow, Image, Record, RecordKind, RecordOutcome, RecordStrategy, Repeat, Stop, Symbol,
    SystemCall, SystemInfo, Thread, Threshold, Times,
};
pub use record::{HeldInfo, ProcessInfo, SetHow, SetInfo};
pub use report::{Report, Torn};
