//! What the last run has left.

use freezeframe_report::file::FileError;
use freezeframe_report::read::{Record, Report};
use std::io::ErrorKind;
use std::path::Path;

/// Hands over what earlier runs have left in the file, once: the same records are not handed over again, and their places are
/// free. Freezes in the middle of which the program was killed are among them. To be called before a monitor opens the file.
///
/// # Errors
/// The path is no report file, or a monitor writes to it. That there is no file is none.
pub fn recover(path: &Path) -> Result<Vec<Record>, FileError> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        _ => Report::take(path).map(|report| report.records),
    }
}
