//! The monitor has no reporter of crashes here yet.

use crate::error::ff_monitor_error;

pub(super) fn install(_path: &str, _app: &str, _version: &str) -> Result<(), ff_monitor_error> {
    Err(ff_monitor_error::FF_MONITOR_ERROR_UNSUPPORTED)
}

pub(super) fn protect() -> Result<(), ff_monitor_error> {
    Err(ff_monitor_error::FF_MONITOR_ERROR_UNSUPPORTED)
}
