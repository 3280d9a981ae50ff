//! Encodings: how to leave a function, in 32 bits.
//!
//! ```text
//!  31          30          28       24                     0
//! │ not start │ LSDA │ personality │ mode │ as the mode says │
//! ```

use super::{CompactError, arm64, x86_64};
use crate::memory::Memory;
use crate::rule::SavedRule;
use freezeframe_arch::Architecture;

/// An encoding as it stands in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Encoding(pub u32);

/// What an encoding comes down to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwinding {
    /// Nothing is known of this code: mode 0.
    None,
    /// The rule that is right at the calls of the function.
    Rule(SavedRule),
    /// The rule stands in `__eh_frame`, in the FDE at this offset; zero if the table does not say where.
    Dwarf {
        /// From the start of `__eh_frame`, in bytes.
        fde: u32,
    },
}

impl Encoding {
    /// What this encoding means for the function that begins at `function`, whose code is read if the encoding says so.
    ///
    /// # Errors
    /// The encoding means nothing, or the code it refers to is not what it should be.
    ///
    /// # Signal safety
    /// Safe if `memory` is.
    pub fn unwinding<M: Memory>(
        self,
        memory: &mut M,
        architecture: Architecture,
        function: u64,
    ) -> Result<Unwinding, CompactError> {
        match architecture {
            Architecture::Arm64 => arm64::unwinding(self),
            Architecture::X86_64 => x86_64::unwinding(self, memory, function),
        }
    }

    /// The mode; zero: no unwind information.
    pub(super) const fn mode(self) -> u32 {
        self.bits(24, 4)
    }

    /// `count` bits from bit `first` on.
    pub(super) const fn bits(self, first: u32, count: u32) -> u32 {
        let mask = 1u32.wrapping_shl(count).wrapping_sub(1);
        self.0.wrapping_shr(first) & mask
    }
}
