//! Linux: by the monitor's handlers of signals.

use crate::output::Failure;
use freezeframe_monitor::crash::Reporter;
use freezeframe_report::file::Size;
use std::path::Path;

pub(in super::super) fn report_crashes_to(file: &Path) -> Result<(), Failure> {
    let reporter = Reporter::to_file(file, Size::default());
    reporter.app("dev.freezeframe.demo", env!("CARGO_PKG_VERSION")).install().map_err(Failure::new)
}
