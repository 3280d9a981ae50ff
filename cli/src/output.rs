//! Output that may end early, and colour.

use freezeframe_report::show::Clean;
use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

/// A torn record was met.
pub(crate) const TORN: u8 = 3;

/// Why a command ended without a result.
#[derive(Debug)]
pub(crate) enum Failure {
    BrokenPipe,
    Message(String),
}

/// A command's exit code, if it came to its end.
pub(crate) type Outcome = Result<ExitCode, Failure>;

impl Failure {
    pub(crate) fn new(error: impl Display) -> Self {
        Self::Message(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::Message(format!("cannot write the output: {error}")),
        }
    }
}

/// Writes a message to the standard error, whatever becomes of it.
pub(crate) fn complain(message: &str) {
    // A path may hold anything, and the terminal obeys some of it.
    let _ = writeln!(std::io::stderr(), "freezeframe: {}", Clean(message));
}

/// Colour only on a terminal, and only if nobody has said no.
pub(crate) fn color(refused: bool) -> bool {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    !refused && wanted && std::io::stdout().is_terminal()
}
