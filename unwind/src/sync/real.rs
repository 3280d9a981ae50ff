//! The processor's atomics, and the kernel.

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use crate::sys::{futex_wait_until, futex_wake_all, monotonic};
pub(crate) use core::sync::atomic;

/// A cell whose owner is told by a protocol.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Cell<T>(core::cell::UnsafeCell<core::mem::MaybeUninit<T>>);

#[cfg(any(target_os = "linux", target_os = "android"))]
impl<T: Copy> Cell<T> {
    /// # Safety
    /// The caller owns the cell, and it was written.
    pub(crate) unsafe fn read(&self) -> T {
        // SAFETY: by the contract.
        unsafe { (*self.0.get()).assume_init() }
    }

    /// # Safety
    /// The caller owns the cell.
    pub(crate) unsafe fn write(&self, value: T) {
        // SAFETY: by the contract.
        unsafe { (*self.0.get()).write(value) };
    }
}
