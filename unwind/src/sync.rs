//! What threads share: atomics, a cell that an atomic hands from one side to the other, and sleeping on a word. The race checks put
//! loom's in their place.

#[cfg(all(test, explored))]
mod modelled;
#[cfg(not(all(test, explored)))]
mod real;

#[cfg(all(test, explored))]
pub(crate) use modelled::*;
#[cfg(not(all(test, explored)))]
pub(crate) use real::*;
