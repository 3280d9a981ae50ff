//! A `ucontext_t` points at a machine context: the state of an exception, then of the thread.

use crate::error::ff_error;
use crate::storage::Content;
use core::ffi::c_void;
use freezeframe_arch::mach::{from_thread_state, thread_state_bytes};
use freezeframe_arch::{Architecture, Registers};
use freezeframe_unwind::init::{Config, pac_mask};
use freezeframe_unwind::snapshot::Options;

/// Where `uc_mcontext` lies, behind `uc_onstack`, `uc_sigmask`, `uc_stack`, `uc_link` and `uc_mcsize`.
const MACHINE_CONTEXT: usize = 48;
/// Where `__ss` lies in it: behind `__es`, which has 16 bytes on both architectures.
const THREAD_STATE: usize = 16;

/// There is nothing to choose.
pub(crate) fn config(_signal: i32) -> Option<Config> {
    None
}

/// The registers in a `ucontext_t`.
///
/// # Safety
/// It is the third argument of a signal handler, which has not returned yet.
pub(crate) unsafe fn registers(context: *const c_void) -> Result<Registers, ff_error> {
    // SAFETY: as the caller promises.
    let machine = unsafe { context.cast::<u8>().add(MACHINE_CONTEXT).cast::<*const u8>().read_unaligned() };
    if machine.is_null() {
        return Err(ff_error::FF_ERROR_CONTEXT);
    }
    let length = thread_state_bytes(Architecture::NATIVE);
    // SAFETY: as above.
    let bytes = unsafe { core::slice::from_raw_parts(machine.add(THREAD_STATE), length) };
    from_thread_state(Architecture::NATIVE, bytes, pac_mask()).map_err(|_| ff_error::FF_ERROR_CONTEXT)
}

/// Nothing captures the threads of a process that has crashed here yet.
pub(crate) fn capture_all(
    _content: &mut Content,
    _registers: &Registers,
    _options: &Options<'_>,
) -> Result<(), ff_error> {
    Err(ff_error::FF_ERROR_UNSUPPORTED)
}
