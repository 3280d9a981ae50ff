//! Why a row could not be applied.

use crate::memory::CutShort;
use core::fmt;

/// Why a row does not lead to a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleError {
    /// The row and the registers are of different architectures.
    Architecture,
    /// The row does not say where the CFA is.
    NoCfa,
    /// A rule needs a register whose value is not known, by DWARF number.
    UnknownRegister(u16),
    /// The return address is kept where nothing was said about: not the end of a stack, but no way on either.
    NoReturnAddress,
    /// Memory that a rule refers to cannot be read.
    Unreadable(u64),
    /// An expression has an operation that means nothing here.
    ExpressionOpcode(u8),
    /// An expression takes more from its stack than there is, or puts more there than fits.
    ExpressionStack,
    /// An expression divides by zero.
    ExpressionDivision,
    /// An expression takes too many steps: it loops.
    ExpressionSteps,
    /// An expression jumps outside itself.
    ExpressionBranch,
    /// An expression ends in the middle of an operation, or cannot be read.
    ExpressionCutShort,
}

impl From<CutShort> for RuleError {
    fn from(_: CutShort) -> Self {
        Self::ExpressionCutShort
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Architecture => write!(f, "the row is for another architecture than the registers"),
            Self::NoCfa => write!(f, "the row does not define the frame's address (CFA)"),
            Self::UnknownRegister(register) => {
                write!(f, "a rule needs register {register}, whose value is not known")
            }
            Self::NoReturnAddress => write!(f, "the row does not say where the return address is"),
            Self::Unreadable(address) => write!(f, "unreadable memory at {address:#x}"),
            Self::ExpressionOpcode(opcode) => {
                write!(f, "operation {opcode:#04x} is not allowed in an expression of a rule")
            }
            Self::ExpressionStack => write!(f, "an expression's stack runs empty or over"),
            Self::ExpressionDivision => write!(f, "an expression divides by zero"),
            Self::ExpressionSteps => write!(f, "an expression takes too many steps"),
            Self::ExpressionBranch => write!(f, "an expression jumps outside itself"),
            Self::ExpressionCutShort => write!(f, "an expression is cut short or unreadable"),
        }
    }
}

impl core::error::Error for RuleError {}
