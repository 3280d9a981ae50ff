//! The calls that stop a thread.

use crate::init::pac_mask;
use crate::suspend::SuspendError;
use crate::sys;
use crate::threads::ThreadId;
use freezeframe_arch::{Architecture, Registers, mach};
use mach2::kern_return::{KERN_ABORTED, KERN_INVALID_ARGUMENT, KERN_SUCCESS, KERN_TERMINATED, kern_return_t};
use mach2::message::MACH_SEND_INVALID_DEST;

/// A thread that is stopped until this is dropped.
#[derive(Debug)]
pub(super) struct Stopped(ThreadId);

impl Stopped {
    pub(super) fn new(thread: ThreadId) -> Result<Self, SuspendError> {
        // SAFETY: passes a port's name; the kernel checks what it names.
        match unsafe { mach2::thread_act::thread_suspend(sys::port(thread)) } {
            KERN_SUCCESS => Ok(Self(thread)),
            error => Err(reason(error)),
        }
    }

    pub(super) fn registers(&self) -> Result<Registers, SuspendError> {
        const ARCHITECTURE: Architecture = Architecture::NATIVE;
        // The kernel counts in words of four bytes; registers are words of eight.
        let mut state = [0u64; mach::THREAD_STATE_BYTES_MAX / 8];
        let mut count = 0;
        let flavor = mach::thread_state_flavor(ARCHITECTURE);
        let mut get = || {
            count = (mach::thread_state_bytes(ARCHITECTURE) / 4) as u32;
            let state = state.as_mut_ptr().cast();
            // SAFETY: the kernel writes at most `count` words of four bytes to `state`, which has room for them.
            unsafe { mach2::thread_act::thread_get_state(sys::port(self.0), flavor, state, &mut count) }
        };
        // Aborted when something interrupts the capturer's own wait: that says nothing of the thread.
        let result = match get() {
            KERN_ABORTED => get(),
            result => result,
        };
        if result != KERN_SUCCESS {
            return Err(reason(result));
        }
        let mut bytes = [0; mach::THREAD_STATE_BYTES_MAX];
        let words = bytes.as_chunks_mut::<8>().0.iter_mut().zip(state);
        words.for_each(|(to, from)| *to = from.to_le_bytes());
        let filled = bytes.get(..(count as usize).saturating_mul(4)).unwrap_or(&[]);
        mach::from_thread_state(ARCHITECTURE, filled, pac_mask()).map_err(|_| SuspendError::Refused)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // SAFETY: undoes the one suspension that this value stands for.
        let _ = unsafe { mach2::thread_act::thread_resume(sys::port(self.0)) };
    }
}

/// What the kernel says of a thread that has ended depends on how far it got: the thread, or only its port, is gone.
const fn reason(error: kern_return_t) -> SuspendError {
    match error {
        KERN_TERMINATED | KERN_INVALID_ARGUMENT | MACH_SEND_INVALID_DEST => SuspendError::Gone,
        _ => SuspendError::Refused,
    }
}
