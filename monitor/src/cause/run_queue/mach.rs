//! Mach does not tell.

use crate::subject::Subject;
use freezeframe_unwind::threads::ThreadId;

pub(crate) fn waited_ns(_: Subject, _thread: ThreadId) -> Option<u64> {
    None
}
