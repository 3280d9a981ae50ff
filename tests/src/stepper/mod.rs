//! The truth about stacks: a program is stepped one instruction at a time, a shadow call stack is kept by what its
//! instructions do, and the walk is compared with it at each of them.
//!
//! ```text
//! Child ──step──▶ registers ──▶ Shadow: call pushes, return pops ──▶ the callers ─┐
//!                    └─────────▶ Walker over the child's memory ───▶ the frames ─┴─▶ Tally
//! ```

mod child;
mod exceptions;
mod images;
mod memory;
mod shadow;
mod tally;
mod truth;

pub use child::{Child, Stop};
pub use images::{Images, ImagesMemory, Place};
pub use memory::{StoppedMemory, read_process};
pub use shadow::{Entry, Instruction, Shadow};
pub use tally::{Kind, Mismatch, Tally};
pub use truth::{Settings, Start, Stepper};
