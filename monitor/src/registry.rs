//! Which loops of this process are watched: one monitor each.

use freezeframe_unwind::threads::ThreadId;
use std::sync::{Mutex, PoisonError};

static WATCHED: Mutex<Vec<ThreadId>> = Mutex::new(Vec::new());

/// The right to watch a thread's loop, until it is dropped.
#[derive(Debug)]
pub(crate) struct Registration(ThreadId);

impl Registration {
    /// None if the thread's loop is watched already.
    pub(crate) fn new(thread: ThreadId) -> Option<Self> {
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        if watched.contains(&thread) {
            return None;
        }
        watched.push(thread);
        Some(Self(thread))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        WATCHED.lock().unwrap_or_else(PoisonError::into_inner).retain(|thread| *thread != self.0);
    }
}
