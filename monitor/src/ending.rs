//! Whether the process ends: a loop that has stopped turning for that is not frozen.

use std::sync::atomic::AtomicBool;

/// Set by the handler of a crash, which holds the thread that has crashed until its report is written.
pub(crate) static PROCESS_ENDS: AtomicBool = AtomicBool::new(false);
