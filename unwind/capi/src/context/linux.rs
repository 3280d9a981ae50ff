//! A `ucontext_t` begins with what is needed, in a layout that never changes.

use crate::error::ff_error;
use crate::storage::Content;
use core::ffi::c_void;
use freezeframe_arch::linux::{from_ucontext, ucontext_bytes};
use freezeframe_arch::{Architecture, Registers};
use freezeframe_unwind::init::Config;
use freezeframe_unwind::snapshot::Options;

/// Setting up with this signal; the default for zero.
pub(crate) fn config(signal: i32) -> Option<Config> {
    (signal != 0).then(|| Config { signal, ..Config::default() })
}

/// The registers in a `ucontext_t`.
///
/// # Safety
/// It is the third argument of a signal handler, which has not returned yet.
pub(crate) unsafe fn registers(context: *const c_void) -> Result<Registers, ff_error> {
    let length = ucontext_bytes(Architecture::NATIVE);
    // SAFETY: the kernel's frame is larger than that.
    let bytes = unsafe { core::slice::from_raw_parts(context.cast::<u8>(), length) };
    from_ucontext(Architecture::NATIVE, bytes).map_err(|_| ff_error::FF_ERROR_CONTEXT)
}

/// Captures all threads for a signal handler.
pub(crate) fn capture_all(
    content: &mut Content,
    registers: &Registers,
    options: &Options<'_>,
) -> Result<(), ff_error> {
    content.snapshot.capture_from_context(&content.suspender, &content.images, registers, options);
    Ok(())
}
