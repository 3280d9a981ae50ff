//! A crash in words.

use super::apple::field;
use super::clean::Clean;
use crate::read::{CrashInfo, Record};
use std::fmt::{Display, Formatter};
use std::io::{Result, Write};

/// Why a signal came, and what it is about: `SEGV_MAPERR at 0x0`.
struct Reason<'a>(&'a CrashInfo);

impl Display for Reason<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self.0.code_name.as_str() {
            "" => write!(f, "code {}", self.0.code)?,
            name => Clean(name).fmt(f)?,
        }
        if let Some(address) = self.0.address {
            write!(f, " at {address:#x}")?;
        }
        if let Some(sender) = self.0.sender {
            write!(f, " from process {}", sender.pid)?;
        }
        Ok(())
    }
}

/// A crash in one line: `SIGSEGV, SEGV_MAPERR at 0x0`.
pub(super) fn describe(crash: &CrashInfo) -> String {
    format!("{}, {}", Clean(&crash.name), Reason(crash))
}

/// The two lines in which Apple's form tells of a signal.
pub(super) fn write_signal(out: &mut dyn Write, record: &Record) -> Result<()> {
    match &record.crash {
        Some(crash) => {
            field(out, "Exception Type", Clean(&crash.name))?;
            field(out, "Exception Codes", Reason(crash))
        }
        None => field(out, "Exception Type", "a signal that is not known"),
    }
}
