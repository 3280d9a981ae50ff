//! The signal handler of the handshake.

use crate::suspend::{Registration, Suspender, install};
use freezeframe_arch::PacMask;

/// What to set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The signal that stops threads. Its earlier handler is kept and called for signals that are not ours.
    ///
    /// The default, `SIGURG`, does nothing by default, is never refused for want of a queue entry, and so harms nobody
    /// if it arrives late. Runtimes that use it themselves (Go) need another.
    pub signal: i32,
    /// Whether the helper that holds all threads together registers as this process's tracer, where Yama demands that.
    pub registration: Registration,
}

impl Default for Config {
    fn default() -> Self {
        Self { signal: libc::SIGURG, registration: Registration::Leave }
    }
}

/// Why setting up failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitError {
    /// The kernel gave no page, or did not accept a handler for the signal: its error number.
    Refused(i32),
}

impl core::fmt::Display for InitError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self::Refused(number) = self;
        write!(f, "the handler that stops threads could not be installed (error {number})")
    }
}

impl core::error::Error for InitError {}

/// Sets up the suspension of threads, once for the process: a page of shared state, a signal handler, a stack for the
/// helper that traces, and five descriptors for when there are no others left, which all stay for good. A second call
/// returns the same and changes nothing.
///
/// # Errors
/// The kernel refuses the page or the handler.
///
/// # Signal safety
/// Not for signal handlers.
pub fn init(config: Config) -> Result<Suspender, InitError> {
    crate::locks::learn_layout();
    install(config.signal, config.registration).map_err(|error| InitError::Refused(error.0))
}

/// The mask of pointer authentication codes in this process's code pointers.
///
/// x86_64 has none. arm64 Linux signs in the bits from the size of the address space up to 54; 48 bits is what every
/// distribution's kernel gives to programs that do not ask for more.
pub fn pac_mask() -> PacMask {
    #[cfg(target_arch = "aarch64")]
    {
        PacMask::new(0x007f_0000_0000_0000)
    }
    #[cfg(not(target_arch = "aarch64"))]
    {
        PacMask::NONE
    }
}
