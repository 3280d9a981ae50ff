//! A row of call frame information: for some addresses, the equations of all registers of the caller.

use super::Expression;
use crate::images::Range;
use core::fmt;
use freezeframe_arch::Architecture;

/// How many of an architecture's DWARF registers a row has rules for: rax to rip (0 to 16), x0 to pc (0 to 32).
pub(crate) const fn tracked_registers(architecture: Architecture) -> u64 {
    match architecture {
        Architecture::X86_64 => 17,
        Architecture::Arm64 => 33,
    }
}

/// One slot for each register, and one for a return address column that is none of them.
const SLOTS: usize = 34;
const COLUMN_SLOT: usize = SLOTS - 1;

/// Where the canonical frame address (CFA) is: the stack pointer before the call that made the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CfaRule {
    /// No instruction has defined it: there is no CFA.
    Unspecified,
    /// `cfa = register + offset`
    RegisterOffset {
        /// The DWARF number of the register.
        register: u16,
        /// What to add, in bytes.
        offset: i64,
    },
    /// `cfa = expression()`
    Expression(Expression),
}

/// What a register of the caller is. `r` is the register that the rule is for, `cfa` the frame's CFA; on the right
/// stand the registers of the callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterRule {
    /// Nothing was said. Like libgcc: `r = r`, but `sp = cfa`; for a return address column that is the pc itself this
    /// yields no caller.
    Unspecified,
    /// `r = unknown`; for the return address: there is no caller, the stack ends here.
    Undefined,
    /// `r = r`
    SameValue,
    /// `r = *(cfa + offset)`
    Offset(i64),
    /// `r = cfa + offset`
    ValOffset(i64),
    /// `r = register`
    Register(u16),
    /// `r = *expression(cfa)`
    Expression(Expression),
    /// `r = expression(cfa)`
    ValExpression(Expression),
}

/// Whether an arm64 return address carries a pointer authentication code: the pseudo-register RA_SIGN_STATE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReturnAddressSign {
    /// It is a plain address.
    #[default]
    Plain,
    /// It is signed with the stack pointer.
    Signed,
    /// It is signed with the stack pointer and the address of the signing instruction (PAuth_LR).
    SignedWithPc,
}

impl ReturnAddressSign {
    /// The state after an instruction that flips `bits` of it: bit 0 says signed, bit 1 with the pc.
    pub(crate) const fn flipped(self, bits: u8) -> Self {
        let state = match self {
            Self::Plain => 0,
            Self::Signed => 1,
            Self::SignedWithPc => 3,
        };
        match state ^ bits {
            3 => Self::SignedWithPc,
            1 => Self::Signed,
            _ => Self::Plain,
        }
    }
}

/// What call frame instructions change, and what they remember and restore.
///
/// Only rules whose bit is set in `specified` mean anything: a state is emptied and copied at the cost of what it holds.
#[derive(Clone)]
pub(crate) struct RowState {
    pub(crate) cfa: CfaRule,
    pub(crate) sign: ReturnAddressSign,
    specified: u64,
    rules: [RegisterRule; SLOTS],
}

impl RowState {
    pub(crate) const fn new() -> Self {
        Self {
            cfa: CfaRule::Unspecified,
            sign: ReturnAddressSign::Plain,
            specified: 0,
            rules: [RegisterRule::Unspecified; SLOTS],
        }
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        (self.cfa, self.sign, self.specified) = (CfaRule::Unspecified, ReturnAddressSign::Plain, 0);
    }

    #[inline(always)]
    pub(crate) fn copy_from(&mut self, other: &Self) {
        (self.cfa, self.sign, self.specified) = (other.cfa, other.sign, other.specified);
        for slot in Bits(other.specified) {
            if let (Some(to), Some(from)) = (self.rules.get_mut(slot), other.rules.get(slot)) {
                *to = *from;
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, slot: usize) -> RegisterRule {
        match self.rules.get(slot) {
            Some(rule) if self.specified & bit(slot) != 0 => *rule,
            _ => RegisterRule::Unspecified,
        }
    }

    #[inline]
    pub(crate) fn set(&mut self, slot: usize, rule: RegisterRule) {
        if rule == RegisterRule::Unspecified {
            self.specified &= !bit(slot);
        } else if let Some(to) = self.rules.get_mut(slot) {
            *to = rule;
            self.specified |= bit(slot);
        }
    }
}

const fn bit(slot: usize) -> u64 {
    1u64.wrapping_shl(slot as u32)
}

/// The numbers of the bits that are set, ascending.
struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let lowest = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (lowest < u64::BITS).then_some(lowest as usize)
    }
}

/// A row of call frame information: the rules that lead from a frame to its caller while the program counter is in
/// [`range`](Self::range). [`apply`](Self::apply) executes it.
#[derive(Clone)]
pub struct Row {
    pub(crate) range: Range,
    pub(crate) architecture: Architecture,
    pub(crate) return_column: u64,
    pub(crate) signal_frame: bool,
    pub(crate) b_key: bool,
    pub(crate) state: RowState,
}

impl Row {
    pub(crate) const fn new() -> Self {
        Self {
            range: Range { start: 0, end: 0 },
            architecture: Architecture::NATIVE,
            return_column: 0,
            signal_frame: false,
            b_key: false,
            state: RowState::new(),
        }
    }

    /// The addresses for which the row holds.
    ///
    /// # Signal safety
    /// Safe, as is every method of this type.
    pub const fn range(&self) -> Range {
        self.range
    }

    /// Whose registers the rules are about.
    pub const fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// The rule of the CFA.
    pub const fn cfa(&self) -> CfaRule {
        self.state.cfa
    }

    /// The rule of a register, by DWARF number. Rules of registers that no walk needs (vectors) are not kept.
    pub fn rule(&self, register: u16) -> RegisterRule {
        self.slot(register.into()).map_or(RegisterRule::Unspecified, |slot| self.state.get(slot))
    }

    /// The registers that have a rule, by ascending DWARF number.
    pub fn rules(&self) -> impl Iterator<Item = (u16, RegisterRule)> + '_ {
        Bits(self.state.specified).map(|slot| {
            let register = if slot == COLUMN_SLOT { self.return_column as u16 } else { slot as u16 };
            (register, self.state.get(slot))
        })
    }

    /// The DWARF number of the register that holds the return address: 16 on x86_64, 30 on arm64, as a rule.
    pub const fn return_column(&self) -> u64 {
        self.return_column
    }

    /// The rule of the return address.
    #[inline]
    pub fn return_address(&self) -> RegisterRule {
        self.slot(self.return_column).map_or(RegisterRule::Unspecified, |slot| self.state.get(slot))
    }

    /// Whether this is the frame that a signal handler returns to: the caller's address is where the signal
    /// interrupted, not a return address.
    pub const fn is_signal_frame(&self) -> bool {
        self.signal_frame
    }

    /// Whether the return address is signed (arm64).
    pub const fn sign(&self) -> ReturnAddressSign {
        self.state.sign
    }

    /// Whether it is signed with key B instead of A.
    pub const fn is_b_key(&self) -> bool {
        self.b_key
    }

    /// Where the rule of a register is kept.
    #[inline]
    pub(crate) fn slot(&self, register: u64) -> Option<usize> {
        if register < tracked_registers(self.architecture) {
            return Some(register as usize);
        }
        (register == self.return_column).then_some(COLUMN_SLOT)
    }

    /// The rules of the registers of the architecture's register file.
    #[inline]
    pub(crate) fn register_rules(&self) -> impl Iterator<Item = (usize, RegisterRule)> + '_ {
        Bits(self.state.specified & !bit(COLUMN_SLOT)).map(|slot| (slot, self.state.get(slot)))
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.range;
        write!(f, "{start:#x}..{end:#x} {} cfa = {:?}", self.architecture.name(), self.cfa())?;
        for (register, rule) in self.rules() {
            write!(f, ", r{register} = {rule:?}")?;
        }
        write!(f, ", return address in r{} {:?}", self.return_column, self.sign())?;
        if self.signal_frame { write!(f, ", signal frame") } else { Ok(()) }
    }
}

impl fmt::Debug for RowState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = Bits(self.specified).map(|slot| (slot, self.get(slot)));
        write!(f, "cfa = {:?}, {:?}: ", self.cfa, self.sign)?;
        f.debug_map().entries(rules).finish()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_copied_state_has_the_same_rules_and_no_older_ones() {
        let (mut from, mut to) = (RowState::new(), RowState::new());
        from.set(3, RegisterRule::Offset(-8));
        from.set(33, RegisterRule::Undefined);
        from.set(5, RegisterRule::SameValue);
        from.set(5, RegisterRule::Unspecified);
        to.set(4, RegisterRule::SameValue);
        to.copy_from(&from);
        let rules: Vec<RegisterRule> = [3, 4, 5, 33, 34].map(|slot| to.get(slot)).into();
        let (offset, undefined, none) =
            (RegisterRule::Offset(-8), RegisterRule::Undefined, RegisterRule::Unspecified);
        assert_eq!(rules, [offset, none, none, undefined, none]);
        to.clear();
        assert_eq!(to.get(3), none);
    }

    #[test]
    fn a_return_address_column_outside_the_register_file_has_a_slot_of_its_own() {
        let mut row = Row::new();
        row.architecture = Architecture::X86_64;
        row.return_column = 99;
        assert_eq!((row.slot(16), row.slot(17), row.slot(99)), (Some(16), None, Some(COLUMN_SLOT)));
        row.state.set(COLUMN_SLOT, RegisterRule::Offset(8));
        assert_eq!((row.return_address(), row.rule(99)), (RegisterRule::Offset(8), RegisterRule::Offset(8)));
        assert_eq!(row.rules().collect::<Vec<_>>(), [(99, RegisterRule::Offset(8))]);
        row.architecture = Architecture::Arm64;
        assert_eq!((row.slot(32), row.slot(33)), (Some(32), None));
    }

    #[test]
    fn the_sign_state_flips_as_its_two_bits_do() {
        use ReturnAddressSign::{Plain, Signed, SignedWithPc};
        assert_eq!((Plain.flipped(1), Signed.flipped(1)), (Signed, Plain));
        assert_eq!((Plain.flipped(3), SignedWithPc.flipped(3)), (SignedWithPc, Plain));
    }
}
