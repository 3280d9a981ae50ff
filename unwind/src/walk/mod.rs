//! From registers to a backtrace.

mod backtrace;
mod compact;
mod context;
mod epilogue;
mod frame_pointers;
mod function;
mod hurry;
mod registers;
mod repeat;
mod signal;
mod stop;
mod stub;
#[cfg(test)]
mod tests;
mod to_return;
mod walker;
mod without_tables;

pub use backtrace::{Backtrace, Depth, Frame, Summary};
pub use context::WalkContext;
pub use frame_pointers::FramePointerWalker;
pub use repeat::Repeat;
pub use stop::StopReason;
pub use walker::Walker;

use crate::memory::Memory;
use freezeframe_arch::PacMask;

/// A walk of one stack, from a thread's registers outward.
///
/// # Signal safety
/// The walks of this crate are safe if the memory that they read is.
pub trait Walk {
    /// The next frame outward; the first is where the thread stands.
    ///
    /// # Errors
    /// Why the walk has ended. A walk that has ended stays so.
    fn next<M: Memory>(&mut self, memory: &mut M) -> Result<Frame, StopReason>;

    /// Which bits of return addresses hold authentication codes.
    fn pac(&self) -> PacMask;

    /// As many frames as `frames` takes. Returns how many came.
    ///
    /// # Errors
    /// Why the walk has ended before.
    fn fill<M: Memory>(&mut self, memory: &mut M, frames: &mut [Frame]) -> (usize, Result<(), StopReason>) {
        let mut filled = 0usize;
        for slot in frames {
            match self.next(memory) {
                Ok(frame) => *slot = frame,
                Err(stop) => return (filled, Err(stop)),
            }
            filled = filled.saturating_add(1);
        }
        (filled, Ok(()))
    }
}
