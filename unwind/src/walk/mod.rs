//! From registers to a backtrace.

mod backtrace;
mod repeat;
mod stop;
mod walker;

pub use backtrace::{Backtrace, Depth, Frame, Summary};
pub use repeat::Repeat;
pub use stop::StopReason;
pub use walker::Walker;
