//! Which loops of this process are watched: one monitor each.

use crate::per_process::PerProcess;
use freezeframe_unwind::threads::ThreadId;

static WATCHED: PerProcess<Vec<ThreadId>> = PerProcess::new();

/// The right to watch a thread's loop, until it is dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    thread: ThreadId,
    process: u32,
}

impl Registration {
    /// None if the thread's loop is watched already.
    pub(crate) fn new(thread: ThreadId) -> Option<Self> {
        let mut watched = WATCHED.lock();
        if watched.contains(&thread) {
            return None;
        }
        watched.push(thread);
        Some(Self { thread, process: std::process::id() })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // A forked child's threads may have the same numbers.
        if self.process == std::process::id() {
            WATCHED.lock().retain(|thread| *thread != self.thread);
        }
    }
}
