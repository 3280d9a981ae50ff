//! The file on disk: made whole before it is used, held by one process at a time, mapped.

mod create;
mod error;
mod mapped;

pub use error::FileError;
pub use mapped::{ReportFile, Size};
