//! The memory that a ring lies in. The race checks put a model in its place.

#[cfg(not(all(test, loom)))]
mod mapped;
#[cfg(all(test, loom))]
mod modelled;

#[cfg(not(all(test, loom)))]
pub(super) use mapped::Memory;
#[cfg(all(test, loom))]
pub(super) use modelled::Memory;
