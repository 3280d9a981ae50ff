//! The report file of a watched program.

use crate::output::{Failure, complain};
use freezeframe_report::file::{ReportFile, Size};
use freezeframe_report::ring::Owner;
use std::path::PathBuf;

/// A report file that can be written to.
pub(super) struct File {
    pub(super) path: PathBuf,
    /// Nobody has asked for it by name: without a freeze it goes away.
    unasked: bool,
}

impl File {
    /// Makes the file, or sees that the one that is there can be used: before anything is started.
    pub(super) fn make(wanted: Option<&PathBuf>) -> Result<Self, Failure> {
        let default = || std::env::temp_dir().join(format!("freezeframe-{}.ffr", std::process::id()));
        let path = wanted.cloned().unwrap_or_else(default);
        let owner = Owner::this_process().map_err(Failure::new)?;
        ReportFile::open(&path, Size::default(), owner).map_err(Failure::new)?;
        Ok(Self { path, unasked: wanted.is_none() })
    }

    /// Says where it is, if there is something in it.
    pub(super) fn finish(&self, freezes: u64, quiet: bool) {
        match freezes {
            0 if self.unasked => drop(std::fs::remove_file(&self.path)),
            0 => {}
            _ if quiet => {}
            1 => complain(&format!("1 freeze. The report: {}", self.path.display())),
            many => complain(&format!("{many} freezes. The report: {}", self.path.display())),
        }
    }
}
