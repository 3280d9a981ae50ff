//! What a frame's address is, how far it can be trusted, and the equations that lead from a frame to its caller.

mod address;
mod cache;
mod cfi;
mod error;
mod expression;
mod frame_pointer;
mod row;
mod saved;

pub use address::{FrameAddress, Trust};
pub use cache::RuleCache;
pub use cfi::{CfiCaller, KnownRegisters};
pub use error::RuleError;
pub use expression::Expression;
pub use frame_pointer::{Caller, FramePointer, StackBounds};
pub use row::{CfaRule, RegisterRule, ReturnAddressSign, Row};

pub use saved::{Rule, SavedRule};

pub(crate) use row::RowState;
pub(crate) use saved::{Base, FOLLOWED, Usual, followed, followed_fp};
