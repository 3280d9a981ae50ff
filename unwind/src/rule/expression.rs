//! DWARF expressions, as far as rules use them: a stack machine of 64-bit words (DWARF 5, section 2.5).
//!
//! Not allowed are operations that name a location instead of a value, that call, or that need debug information
//! (section 6.4.2 forbids them in call frame information, too).

use super::RuleError;
use crate::memory::{Cursor, Memory, Window};

/// Where the bytes of an expression lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expression {
    /// The address of the first operation.
    pub address: u64,
    /// The size in bytes.
    pub length: u32,
}

/// As deep as libgcc's.
const STACK: usize = 64;
/// More operations than any real expression executes; those of a PLT execute eleven.
const STEPS: u32 = 1024;
/// The longest operation: `bregx` with two numbers of ten bytes.
const LONGEST: usize = 21;

/// An operation: its code, and its operands, if it has any.
struct Operation {
    opcode: u8,
    operand: u64,
    register: u64,
}

impl Operation {
    #[inline]
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, RuleError> {
        let opcode = cursor.u8()?;
        let mut register = u64::from(opcode.wrapping_sub(op::BREG0));
        let operand = match opcode {
            op::ADDR | op::CONST8U | op::CONST8S => cursor.u64()?,
            op::CONST1U | op::PICK | op::DEREF_SIZE => cursor.u8()?.into(),
            op::CONST1S => cursor.u8()? as i8 as u64,
            op::CONST2U => cursor.u16()?.into(),
            op::CONST2S | op::SKIP | op::BRA => cursor.u16()? as i16 as u64,
            op::CONST4U => cursor.u32()?.into(),
            op::CONST4S => cursor.u32()? as i32 as u64,
            op::CONSTU | op::PLUS_UCONST => cursor.uleb()?,
            op::CONSTS | op::BREG0..=op::BREG31 => cursor.sleb()? as u64,
            op::BREGX => {
                register = cursor.uleb()?;
                cursor.sleb()? as u64
            }
            _ => 0,
        };
        Ok(Self { opcode, operand, register })
    }
}

impl Expression {
    /// The value of the expression, whose operations lie in `tables` and which loads from `memory`. It starts with
    /// `initial` on its stack, if given, and asks `register` for the values of registers by DWARF number.
    ///
    /// # Errors
    /// The expression is malformed or endless, or needs a register or memory that is not there.
    ///
    /// # Signal safety
    /// Safe if `tables` and `memory` are; uses about 700 bytes of stack and at most 1024 steps.
    pub fn evaluate<T: Memory, M: Memory>(
        self,
        tables: &mut T,
        memory: &mut M,
        initial: Option<u64>,
        register: impl Fn(u64) -> Option<u64>,
    ) -> Result<u64, RuleError> {
        let end = self.address.checked_add(self.length.into()).ok_or(RuleError::ExpressionCutShort)?;
        let mut window = Window::<64>::new();
        let mut stack = Stack { words: [0; STACK], depth: 0 };
        if let Some(initial) = initial {
            stack.push(initial)?;
        }
        let mut at = self.address;
        for _ in 0..STEPS {
            if at == end {
                return stack.pop();
            }
            let mut cursor = Cursor::new(at, window.at(tables, at, LONGEST), end);
            let operation = Operation::read(&mut cursor)?;
            at = cursor.address();
            match operation.opcode {
                op::DEREF => {
                    let address = stack.pop()?;
                    stack.push(memory.read_u64(address).ok_or(RuleError::Unreadable(address))?)?;
                }
                op::DEREF_SIZE => {
                    let address = stack.pop()?;
                    stack.push(load(memory, address, operation.operand)?)?;
                }
                op::BREG0..=op::BREG31 | op::BREGX => {
                    let value = register(operation.register).ok_or(RuleError::UnknownRegister(
                        operation.register.try_into().unwrap_or(u16::MAX),
                    ))?;
                    stack.push(value.wrapping_add(operation.operand))?;
                }
                op::SKIP => at = jump(at, operation.operand, self.address, end)?,
                op::BRA => {
                    if stack.pop()? != 0 {
                        at = jump(at, operation.operand, self.address, end)?;
                    }
                }
                _ => stack.execute(&operation)?,
            }
        }
        Err(RuleError::ExpressionSteps)
    }
}

/// A little-endian number of 1 to 8 bytes.
fn load<M: Memory>(memory: &mut M, address: u64, size: u64) -> Result<u64, RuleError> {
    let mut word = [0; 8];
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let bytes = word.get_mut(..size).filter(|bytes| !bytes.is_empty());
    let bytes = bytes.ok_or(RuleError::ExpressionOpcode(op::DEREF_SIZE))?;
    if memory.read(address, bytes) != size {
        return Err(RuleError::Unreadable(address));
    }
    Ok(u64::from_le_bytes(word))
}

fn jump(from: u64, by: u64, start: u64, end: u64) -> Result<u64, RuleError> {
    let to = from.wrapping_add(by);
    if start <= to && to <= end { Ok(to) } else { Err(RuleError::ExpressionBranch) }
}

struct Stack {
    words: [u64; STACK],
    depth: usize,
}

impl Stack {
    #[inline]
    fn push(&mut self, word: u64) -> Result<(), RuleError> {
        *self.words.get_mut(self.depth).ok_or(RuleError::ExpressionStack)? = word;
        self.depth = self.depth.wrapping_add(1);
        Ok(())
    }

    #[inline]
    fn pop(&mut self) -> Result<u64, RuleError> {
        let word = self.pick(0)?;
        self.depth = self.depth.wrapping_sub(1);
        Ok(word)
    }

    /// The word `n` below the top.
    #[inline]
    fn pick(&self, n: u64) -> Result<u64, RuleError> {
        let n = usize::try_from(n).ok().and_then(|n| n.checked_add(1)).ok_or(RuleError::ExpressionStack)?;
        let slot = self.depth.checked_sub(n).ok_or(RuleError::ExpressionStack)?;
        self.words.get(slot).copied().ok_or(RuleError::ExpressionStack)
    }

    /// The operations that need nothing but the stack.
    fn execute(&mut self, operation: &Operation) -> Result<(), RuleError> {
        let &Operation { opcode, operand, .. } = operation;
        match opcode {
            op::LIT0..=op::LIT31 => self.push(u64::from(opcode.wrapping_sub(op::LIT0))),
            op::ADDR | op::CONST1U..=op::CONSTS => self.push(operand),
            op::DUP => self.push(self.pick(0)?),
            op::DROP => self.pop().map(|_| ()),
            op::OVER => self.push(self.pick(1)?),
            op::PICK => self.push(self.pick(operand)?),
            op::SWAP => {
                let (top, second) = (self.pop()?, self.pop()?);
                self.push(top)?;
                self.push(second)
            }
            op::ROT => {
                let (top, second, third) = (self.pop()?, self.pop()?, self.pop()?);
                self.push(top)?;
                self.push(third)?;
                self.push(second)
            }
            op::ABS | op::NEG | op::NOT | op::PLUS_UCONST => {
                let top = self.pop()?;
                self.push(match opcode {
                    op::ABS => (top as i64).unsigned_abs(),
                    op::NEG => top.wrapping_neg(),
                    op::NOT => !top,
                    _ => top.wrapping_add(operand),
                })
            }
            op::AND..=op::XOR | op::EQ..=op::NE => {
                let (top, second) = (self.pop()?, self.pop()?);
                self.push(binary(opcode, second, top)?)
            }
            op::NOP => Ok(()),
            _ => Err(RuleError::ExpressionOpcode(opcode)),
        }
    }
}

/// `left opcode right`. Words are unsigned where the standard leaves it open, as in other readers: `mod` is, `div` and
/// comparisons are signed by its text.
fn binary(opcode: u8, left: u64, right: u64) -> Result<u64, RuleError> {
    let (signed_left, signed_right) = (left as i64, right as i64);
    let shift = u32::try_from(right).unwrap_or(u32::MAX);
    Ok(match opcode {
        op::AND => left & right,
        op::OR => left | right,
        op::XOR => left ^ right,
        op::PLUS => left.wrapping_add(right),
        op::MINUS => left.wrapping_sub(right),
        op::MUL => left.wrapping_mul(right),
        op::DIV if right == 0 => return Err(RuleError::ExpressionDivision),
        op::DIV => signed_left.wrapping_div(signed_right) as u64,
        op::MOD => left.checked_rem(right).ok_or(RuleError::ExpressionDivision)?,
        op::SHL => left.checked_shl(shift).unwrap_or(0),
        op::SHR => left.checked_shr(shift).unwrap_or(0),
        op::SHRA => (signed_left >> shift.min(63)) as u64,
        op::EQ => (left == right).into(),
        op::NE => (left != right).into(),
        op::GE => (signed_left >= signed_right).into(),
        op::GT => (signed_left > signed_right).into(),
        op::LE => (signed_left <= signed_right).into(),
        op::LT => (signed_left < signed_right).into(),
        _ => return Err(RuleError::ExpressionOpcode(opcode)),
    })
}

/// `DW_OP_*` (DWARF 5, section 7.7.1).
mod op {
    pub(super) const ADDR: u8 = 0x03;
    pub(super) const DEREF: u8 = 0x06;
    pub(super) const CONST1U: u8 = 0x08;
    pub(super) const CONST1S: u8 = 0x09;
    pub(super) const CONST2U: u8 = 0x0a;
    pub(super) const CONST2S: u8 = 0x0b;
    pub(super) const CONST4U: u8 = 0x0c;
    pub(super) const CONST4S: u8 = 0x0d;
    pub(super) const CONST8U: u8 = 0x0e;
    pub(super) const CONST8S: u8 = 0x0f;
    pub(super) const CONSTU: u8 = 0x10;
    pub(super) const CONSTS: u8 = 0x11;
    pub(super) const DUP: u8 = 0x12;
    pub(super) const DROP: u8 = 0x13;
    pub(super) const OVER: u8 = 0x14;
    pub(super) const PICK: u8 = 0x15;
    pub(super) const SWAP: u8 = 0x16;
    pub(super) const ROT: u8 = 0x17;
    pub(super) const ABS: u8 = 0x19;
    pub(super) const AND: u8 = 0x1a;
    pub(super) const DIV: u8 = 0x1b;
    pub(super) const MINUS: u8 = 0x1c;
    pub(super) const MOD: u8 = 0x1d;
    pub(super) const MUL: u8 = 0x1e;
    pub(super) const NEG: u8 = 0x1f;
    pub(super) const NOT: u8 = 0x20;
    pub(super) const OR: u8 = 0x21;
    pub(super) const PLUS: u8 = 0x22;
    pub(super) const PLUS_UCONST: u8 = 0x23;
    pub(super) const SHL: u8 = 0x24;
    pub(super) const SHR: u8 = 0x25;
    pub(super) const SHRA: u8 = 0x26;
    pub(super) const XOR: u8 = 0x27;
    pub(super) const BRA: u8 = 0x28;
    pub(super) const EQ: u8 = 0x29;
    pub(super) const GE: u8 = 0x2a;
    pub(super) const GT: u8 = 0x2b;
    pub(super) const LE: u8 = 0x2c;
    pub(super) const LT: u8 = 0x2d;
    pub(super) const NE: u8 = 0x2e;
    pub(super) const SKIP: u8 = 0x2f;
    pub(super) const LIT0: u8 = 0x30;
    pub(super) const LIT31: u8 = 0x4f;
    pub(super) const BREG0: u8 = 0x70;
    pub(super) const BREG31: u8 = 0x8f;
    pub(super) const BREGX: u8 = 0x92;
    pub(super) const DEREF_SIZE: u8 = 0x94;
    pub(super) const NOP: u8 = 0x96;
}

#[cfg(test)]
mod tests;
