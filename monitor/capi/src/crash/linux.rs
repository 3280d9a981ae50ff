//! The monitor's reporter.

use crate::error::because;
use crate::error::ff_monitor_error::{self, *};
use freezeframe_monitor::crash::{InstallError, Reporter, protect_this_thread};
use freezeframe_report::file::Size;

pub(super) fn install(path: &str, app: &str, version: &str) -> Result<(), ff_monitor_error> {
    let reporter = Reporter::to_file(path, Size::default()).app(app, version);
    reporter.install().map_err(|error| {
        let code = match &error {
            InstallError::AlreadyInstalled => FF_MONITOR_ERROR_ALREADY,
            InstallError::File(_) => FF_MONITOR_ERROR_FILE,
            _ => FF_MONITOR_ERROR_SYSTEM,
        };
        because(code, error)
    })
}

pub(super) fn protect() -> Result<(), ff_monitor_error> {
    let protection = protect_this_thread().map_err(|error| because(FF_MONITOR_ERROR_SYSTEM, error))?;
    std::mem::forget(protection);
    Ok(())
}
