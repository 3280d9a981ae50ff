//! The atomics of what a loop's thread, the watcher and the monitor's owner share. The race checks put loom's in their place.

#[cfg(all(test, explored))]
pub(crate) use freezeframe_races::atomic;
#[cfg(not(all(test, explored)))]
pub(crate) use std::sync::atomic;
