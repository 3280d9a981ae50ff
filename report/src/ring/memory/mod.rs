//! The memory that a ring lies in. The race checks put a model in its place.

#[cfg(not(all(test, explored)))]
mod mapped;
#[cfg(all(test, explored))]
mod modelled;

#[cfg(not(all(test, explored)))]
pub(super) use mapped::Memory;
#[cfg(all(test, explored))]
pub(super) use modelled::Memory;
