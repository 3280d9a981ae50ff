//! Mach does not tell.

use freezeframe_unwind::threads::ThreadId;

pub(crate) fn waited_ns(_thread: ThreadId) -> Option<u64> {
    None
}
