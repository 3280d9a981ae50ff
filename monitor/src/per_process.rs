//! What a process has once.

use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value behind a lock, of which each process has its own. A forked child begins anew: at that moment the parent's may have been
/// locked, and half changed, by a thread that the child does not have.
pub(crate) struct PerProcess<T>(AtomicPtr<Own<T>>);

struct Own<T> {
    process: u32,
    value: Mutex<T>,
}

impl<T: Default + Send> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Waits for the lock. Allocates when it is called for the first time in a process.
    pub(crate) fn lock(&'static self) -> MutexGuard<'static, T> {
        self.own().value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn own(&'static self) -> &'static Own<T> {
        let process = std::process::id();
        let known = self.0.load(Ordering::Acquire);
        // SAFETY: null, or a box that is never freed: its value is behind a lock.
        if let Some(own) = unsafe { known.as_ref() }.filter(|own| own.process == process) {
            return own;
        }
        let fresh = Box::into_raw(Box::new(Own { process, value: Mutex::default() }));
        let current = match self.0.compare_exchange(known, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => fresh,
            Err(faster) => {
                // SAFETY: made above, and known to nobody.
                drop(unsafe { Box::from_raw(fresh) });
                faster
            }
        };
        // SAFETY: as above; another thread of this process has made it, or this one.
        unsafe { &*current }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_one_value_whoever_asks_first() {
        static NUMBER: PerProcess<u32> = PerProcess::new();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..1000).for_each(|_| *NUMBER.lock() += 1));
            }
        });
        assert_eq!(*NUMBER.lock(), 8000);
    }
}
