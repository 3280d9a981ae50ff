//! Applying a row: from a frame's registers to its caller's.

use super::row::{CfaRule, RegisterRule, ReturnAddressSign, Row};
use super::{Expression, RuleError};
use crate::memory::Memory;
use freezeframe_arch::{Architecture, Registers, RegistersArm64, RegistersX86_64};

/// Which registers of a register file hold known values: bit `n` is word `n`, so DWARF register `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownRegisters(u64);

impl KnownRegisters {
    /// None.
    pub const NONE: Self = Self(0);
    /// All of them: the registers of a stopped thread.
    pub const ALL: Self = Self(u64::MAX);

    /// Whether DWARF register `register` is known.
    ///
    /// # Signal safety
    /// Safe, as is every method of this type.
    pub const fn contains(self, register: u16) -> bool {
        register < 64 && self.0 & Self::bit(register) != 0
    }

    /// These and `register`.
    pub const fn with(self, register: u16) -> Self {
        if register < 64 { Self(self.0 | Self::bit(register)) } else { self }
    }

    /// These without `register`.
    pub const fn without(self, register: u16) -> Self {
        if register < 64 { Self(self.0 & !Self::bit(register)) } else { self }
    }

    /// Those that are in both.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The registers that a function must leave as it found them (System V ABI, figure 3.4; AAPCS64, section 6.1.1),
    /// with sp and pc, which every rule gives: rbx, rbp, r12 to r15; x19 to x29.
    pub const fn preserved(architecture: Architecture) -> Self {
        match architecture {
            Architecture::X86_64 => Self(0xf << 12 | 1 << 3 | 1 << 6 | 1 << 7 | 1 << 16),
            Architecture::Arm64 => Self(0x7ff << 19 | 1 << 31 | 1 << 32),
        }
    }

    /// Only the stack pointer and the program counter: what the kernel says of a thread that waits.
    pub const fn stack_and_program_counter(architecture: Architecture) -> Self {
        match architecture {
            Architecture::X86_64 => Self(1 << 7 | 1 << 16),
            Architecture::Arm64 => Self(1 << 31 | 1 << 32),
        }
    }

    const fn bit(register: u16) -> u64 {
        1u64.wrapping_shl(register as u32)
    }
}

/// What [`Row::apply`] yields: the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CfiCaller {
    /// The caller's registers. Its pc is the return address as it is kept, zero if there is none.
    pub registers: Registers,
    /// Which of them are known.
    pub known: KnownRegisters,
    /// The frame's CFA: the stack pointer before the call.
    pub cfa: u64,
    /// The return address, raw: not stripped of a pointer authentication code. None at the end of the stack.
    pub return_address: Option<u64>,
    /// Whether the return address is signed.
    pub sign: ReturnAddressSign,
    /// Whether the return address is where a signal interrupted the caller.
    pub signal_frame: bool,
}

/// The places of the registers with a role, among the words of a register file.
struct Roles {
    sp: usize,
    pc: usize,
    flags: u16,
}

const X86_64: Roles = Roles { sp: 7, pc: 16, flags: 17 };
const ARM64: Roles = Roles { sp: 31, pc: 32, flags: 33 };

impl Row {
    /// The caller of the frame whose `registers` are these, as far as they are `known`. Registers are loaded from
    /// `memory`, a stack; the operations of expressions from `tables`, which the row came from:
    ///
    /// ```text
    /// cfa            = cfa rule(registers)
    /// r              = rule of r(registers, cfa)       for each register that has a rule
    /// sp             = cfa                             if it has none
    /// r              = r                               for all others, as in libgcc
    /// return address = rule of its column(registers, cfa)
    /// ```
    ///
    /// So a register that nothing was said about keeps its value, though the call may have changed it if the ABI lets
    /// it. Hand-written code relies on that; who shows registers to people takes those that are in
    /// [`KnownRegisters::preserved`], too. A register whose rule cannot be followed (memory that was not copied) is
    /// unknown in the caller; only the CFA and the return address must be there.
    ///
    /// # Errors
    /// Why there is no CFA or no return address. A return address that is *undefined* is no error: the stack ends here.
    ///
    /// # Signal safety
    /// Safe if `memory` and `tables` are.
    ///
    /// ```
    /// use freezeframe_arch::{Architecture, Registers, RegistersX86_64};
    /// use freezeframe_unwind::images::Range;
    /// use freezeframe_unwind::memory::SliceMemory;
    /// use freezeframe_unwind::rule::KnownRegisters;
    /// use freezeframe_unwind::tables::cfi::{RowContext, Tables};
    ///
    /// // A CIE (cfa = rsp + 8, rip at cfa - 8) and an FDE for the 16 bytes from 0x5000 on.
    /// let eh_frame = [
    ///     20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 4, 0x0c, 7, 8, 0x90, 1, 0, 0,
    ///     24, 0, 0, 0, 28, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    /// ];
    /// let image = Range { start: 0x1000, end: 0x6000 };
    /// let eh_frame_range = Range { start: 0x1000, end: 0x1000 + eh_frame.len() as u64 };
    /// let tables = Tables { eh_frame: Some(eh_frame_range), ..Tables::new(image) };
    /// let mut context = RowContext::new();
    /// let mut memory = SliceMemory::new(0x1000, &eh_frame);
    /// let row = tables.row(&mut memory, Architecture::X86_64, 0x5004, &mut context)?;
    ///
    /// let mut stack = SliceMemory::new(0x7000, &[0x34, 0x12, 0, 0, 0, 0, 0, 0]);
    /// let registers = Registers::X86_64(RegistersX86_64 { rip: 0x5004, rsp: 0x7000, ..Default::default() });
    /// let caller = row.apply(&mut stack, &mut memory, &registers, KnownRegisters::ALL)?;
    /// assert_eq!((caller.return_address, caller.registers.sp()), (Some(0x1234), 0x7008));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn apply<M: Memory, T: Memory>(
        &self,
        memory: &mut M,
        tables: &mut T,
        registers: &Registers,
        known: KnownRegisters,
    ) -> Result<CfiCaller, RuleError> {
        if self.architecture != registers.architecture() {
            return Err(RuleError::Architecture);
        }
        match registers {
            Registers::X86_64(callee) => {
                let words = callee.words();
                let mut caller = words;
                let found = self.fill(
                    &mut Memories { memory, tables },
                    Callee { words: &words, known },
                    &mut caller,
                    &X86_64,
                )?;
                Ok(found.into_caller(self, Registers::X86_64(RegistersX86_64::from_words(caller))))
            }
            Registers::Arm64(callee) => {
                let words = callee.words();
                let mut caller = words;
                let found = self.fill(
                    &mut Memories { memory, tables },
                    Callee { words: &words, known },
                    &mut caller,
                    &ARM64,
                )?;
                Ok(found.into_caller(self, Registers::Arm64(RegistersArm64::from_words(caller))))
            }
        }
    }

    /// Fills in the caller's words, which hold the callee's.
    #[inline(always)]
    fn fill<M: Memory, T: Memory>(
        &self,
        memories: &mut Memories<'_, M, T>,
        callee: Callee<'_>,
        caller: &mut [u64],
        roles: &Roles,
    ) -> Result<Found, RuleError> {
        let cfa = match self.cfa() {
            CfaRule::Unspecified => return Err(RuleError::NoCfa),
            CfaRule::RegisterOffset { register, offset } => {
                callee.need(register.into())?.wrapping_add_signed(offset)
            }
            CfaRule::Expression(expression) => callee.evaluate(memories, expression, None)?,
        };
        let return_address = self.return_address_value(memories, callee, cfa, roles)?;
        let mut known = callee.known.with(roles.sp as u16);
        if let Some(sp) = caller.get_mut(roles.sp) {
            *sp = cfa;
        }
        for (slot, rule) in self.register_rules() {
            // The return address has been read: most rows have no other rule.
            let value = if slot as u64 == self.return_column {
                return_address
            } else {
                callee.value(memories, slot as u64, rule, cfa).ok().flatten()
            };
            match (value, caller.get_mut(slot)) {
                (Some(value), Some(word)) => {
                    *word = value;
                    known = known.with(slot as u16);
                }
                _ => known = known.without(slot as u16),
            }
        }
        if let Some(pc) = caller.get_mut(roles.pc) {
            *pc = return_address.unwrap_or(0);
        }
        known = match return_address {
            Some(_) => known.with(roles.pc as u16),
            None => known.without(roles.pc as u16),
        };
        Ok(Found { cfa, return_address, known: known.without(roles.flags) })
    }

    #[inline(always)]
    fn return_address_value<M: Memory, T: Memory>(
        &self,
        memories: &mut Memories<'_, M, T>,
        callee: Callee<'_>,
        cfa: u64,
        roles: &Roles,
    ) -> Result<Option<u64>, RuleError> {
        match self.return_address() {
            RegisterRule::Unspecified | RegisterRule::SameValue if self.return_column == roles.pc as u64 => {
                Err(RuleError::NoReturnAddress)
            }
            RegisterRule::Unspecified => callee.need(self.return_column).map(Some),
            rule => callee.value(memories, self.return_column, rule, cfa),
        }
    }
}

struct Found {
    cfa: u64,
    return_address: Option<u64>,
    known: KnownRegisters,
}

impl Found {
    #[inline(always)]
    fn into_caller(self, row: &Row, registers: Registers) -> CfiCaller {
        let Self { cfa, return_address, known } = self;
        CfiCaller { registers, known, cfa, return_address, sign: row.sign(), signal_frame: row.signal_frame }
    }
}

/// What a row is applied with: the stack, and the tables that the row came from. A copy of a stack does not hold the
/// operations of its expressions.
struct Memories<'a, M, T> {
    memory: &'a mut M,
    tables: &'a mut T,
}

impl<M: Memory, T: Memory> Memories<'_, M, T> {
    #[inline]
    fn load(&mut self, address: u64) -> Result<u64, RuleError> {
        self.memory.read_u64(address).ok_or(RuleError::Unreadable(address))
    }
}

/// The registers of the frame that a row is applied to.
#[derive(Clone, Copy)]
struct Callee<'a> {
    words: &'a [u64],
    known: KnownRegisters,
}

impl Callee<'_> {
    #[inline]
    fn get(self, register: u64) -> Option<u64> {
        let word = usize::try_from(register).ok().and_then(|register| self.words.get(register))?;
        self.known.contains(register as u16).then_some(*word)
    }

    #[inline]
    fn need(self, register: u64) -> Result<u64, RuleError> {
        self.get(register).ok_or(RuleError::UnknownRegister(register.try_into().unwrap_or(u16::MAX)))
    }

    #[inline(never)]
    fn evaluate<M: Memory, T: Memory>(
        self,
        memories: &mut Memories<'_, M, T>,
        expression: Expression,
        cfa: Option<u64>,
    ) -> Result<u64, RuleError> {
        expression.evaluate(memories.tables, memories.memory, cfa, |register| self.get(register))
    }

    /// The value of `register` in the caller; none if it is undefined.
    #[inline(always)]
    fn value<M: Memory, T: Memory>(
        self,
        memories: &mut Memories<'_, M, T>,
        register: u64,
        rule: RegisterRule,
        cfa: u64,
    ) -> Result<Option<u64>, RuleError> {
        Ok(Some(match rule {
            RegisterRule::Undefined => return Ok(None),
            RegisterRule::Unspecified | RegisterRule::SameValue => self.need(register)?,
            RegisterRule::Offset(offset) => memories.load(cfa.wrapping_add_signed(offset))?,
            RegisterRule::ValOffset(offset) => cfa.wrapping_add_signed(offset),
            RegisterRule::Register(other) => self.need(other.into())?,
            RegisterRule::Expression(expression) => {
                let address = self.evaluate(memories, expression, Some(cfa))?;
                memories.load(address)?
            }
            RegisterRule::ValExpression(expression) => self.evaluate(memories, expression, Some(cfa))?,
        }))
    }
}

#[cfg(test)]
mod tests;
