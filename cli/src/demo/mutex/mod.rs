//! A mutex of the C library's, which says whose it is. One of Rust's does not.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(target_vendor = "apple")]
mod mach;

#[cfg(any(target_os = "linux", target_os = "android"))]
use linux::lock_within;
#[cfg(target_vendor = "apple")]
use mach::lock_within;

use std::cell::UnsafeCell;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Mutex(Box<UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: it is for many threads; all access is by the C library.
unsafe impl Send for Mutex {}
// SAFETY: likewise.
unsafe impl Sync for Mutex {}

impl Mutex {
    pub(crate) fn new() -> Self {
        Self(Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)))
    }

    /// Locks it until the guard is dropped.
    pub(crate) fn lock(&self) -> Guard<'_> {
        // SAFETY: it is initialised, and stays where it is.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
        Guard(self)
    }

    /// Locks it, unless that takes longer than this.
    pub(crate) fn lock_within(&self, time: Duration) -> Option<Guard<'_>> {
        // SAFETY: it is initialised, and stays where it is.
        unsafe { lock_within(self.0.get(), time) }.then_some(Guard(self))
    }
}

pub(crate) struct Guard<'a>(&'a Mutex);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // SAFETY: this thread has locked it: guards stay in their thread.
        unsafe { libc::pthread_mutex_unlock(self.0.0.get()) };
    }
}
