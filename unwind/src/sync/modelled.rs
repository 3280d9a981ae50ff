//! loom's, and a kernel for it.

extern crate std;
use crate::sys::Errno;
use freezeframe_races::futex::{self, Awake};
use freezeframe_races::loom::cell::UnsafeCell;

pub(crate) use freezeframe_races::atomic;
pub(crate) use freezeframe_races::futex::now_ns as monotonic;

pub(crate) fn futex_wait_until(word: &atomic::AtomicU32, expected: u32, deadline: u64) -> Result<(), Errno> {
    match futex::wait(word, expected, Some(deadline)) {
        Awake::TimedOut => Err(Errno(libc::ETIMEDOUT)),
        Awake::Changed => Err(Errno(libc::EAGAIN)),
        Awake::Woken => Ok(()),
    }
}

pub(crate) fn futex_wake_all(word: &atomic::AtomicU32) {
    futex::wake(word);
}

/// A cell that fails when two threads use it without an order between them.
#[derive(Debug)]
pub(crate) struct Cell<T>(UnsafeCell<T>);

impl<T: Copy> Cell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub(crate) unsafe fn read(&self) -> T {
        // SAFETY: loom fails before a race.
        self.0.with(|value| unsafe { *value })
    }

    pub(crate) unsafe fn write(&self, value: T) {
        // SAFETY: loom fails before a race.
        self.0.with_mut(|place| unsafe { *place = value })
    }
}
