//! What a frame's address is, how far it can be trusted, and the equations that lead from a frame to its caller.

mod address;
mod frame_pointer;

pub use address::{FrameAddress, Trust};
pub use frame_pointer::{Caller, FramePointer, StackBounds};
