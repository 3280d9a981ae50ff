//! From registers to a backtrace.

mod backtrace;
mod context;
mod registers;
mod repeat;
mod signal;
mod stop;
mod stub;
#[cfg(test)]
mod tests;
mod walker;

pub use backtrace::{Backtrace, Depth, Frame, Summary};
pub use context::WalkContext;
pub use repeat::Repeat;
pub use stop::StopReason;
pub use walker::{NoTables, Walker};
