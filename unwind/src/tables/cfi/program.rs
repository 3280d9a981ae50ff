//! Call frame instructions: a CIE's and an FDE's, executed up to an address, make a row.

use super::TableError;
use super::entry::{Cie, Fde};
use super::pointer::{Bases, Pointer};
use crate::images::Range;
use crate::memory::{Cursor, Memory, Window};
use crate::rule::{CfaRule, Expression, RegisterRule, Row, RowState};
use freezeframe_arch::Architecture;
use static_assertions::const_assert;

/// How many states can be remembered at a time. Compilers nest two.
const STATES: usize = 4;
/// The longest instruction, but for the bytes of an expression, which are not read here: a code and two numbers.
const LONGEST: usize = 21;
/// RA_SIGN_STATE's DWARF number.
const SIGN_REGISTER: u64 = 34;

pub(super) const WINDOW: usize = 256;

/// Where a row is made, and what that needs: under 6 KiB that the caller owns, `const` constructible. Nothing in it
/// outlives a lookup but the row.
#[derive(Clone, Debug)]
pub struct RowContext {
    row: Row,
    /// The state after the CIE's instructions, for `restore`.
    initial: RowState,
    states: [RowState; STATES],
    depth: usize,
    pub(super) fde_window: Window<WINDOW>,
    cie_window: Window<WINDOW>,
}

const_assert!(size_of::<RowContext>() <= 6 * 1024);

/// What entries are read through where memory cannot lend its bytes.
pub(super) struct Windows<'a> {
    pub(super) fde: &'a mut Window<WINDOW>,
    pub(super) cie: &'a mut Window<WINDOW>,
}

impl Default for RowContext {
    fn default() -> Self {
        Self::new()
    }
}

impl RowContext {
    /// An empty context.
    pub const fn new() -> Self {
        Self {
            row: Row::new(),
            initial: RowState::new(),
            states: [const { RowState::new() }; STATES],
            depth: 0,
            fde_window: Window::new(),
            cie_window: Window::new(),
        }
    }

    /// The row of the latest lookup that succeeded.
    ///
    /// # Signal safety
    /// Safe.
    pub fn latest(&self) -> &Row {
        &self.row
    }

    #[inline]
    pub(super) fn windows(&mut self) -> Windows<'_> {
        Windows { fde: &mut self.fde_window, cie: &mut self.cie_window }
    }

    #[inline]
    pub(super) fn forget(&mut self) {
        self.fde_window.forget();
        self.cie_window.forget();
    }

    /// Makes the row for `pc`, which lies in the FDE's code.
    #[inline(always)]
    pub(super) fn execute<M: Memory>(
        &mut self,
        memory: &mut M,
        architecture: Architecture,
        cie: &Cie,
        fde: &Fde,
        bases: Bases,
        pc: u64,
    ) -> Result<(), TableError> {
        let Self { row, initial, states, depth, fde_window, cie_window } = self;
        row.range = fde.code;
        row.architecture = architecture;
        row.return_column = cie.return_column;
        row.signal_frame = cie.signal_frame;
        row.b_key = cie.b_key;
        row.state.clear();
        *depth = 0;
        let mut machine = Machine { row, initial: None, states, depth, cie, bases, pc };
        machine.run(memory, cie_window, cie.instructions)?;
        initial.copy_from(&machine.row.state);
        machine.initial = Some(initial);
        machine.bases.function = Some(fde.code.start);
        machine.run(memory, fde_window, fde.instructions)
    }
}

/// What instructions work on.
struct Machine<'a> {
    row: &'a mut Row,
    /// None while the CIE's instructions are executed.
    initial: Option<&'a RowState>,
    states: &'a mut [RowState; STATES],
    depth: &'a mut usize,
    cie: &'a Cie,
    bases: Bases,
    pc: u64,
}

impl Machine<'_> {
    /// Executes instructions up to the end, or up to the row that `pc` is in.
    #[inline(always)]
    fn run<M: Memory, const N: usize>(
        &mut self,
        memory: &mut M,
        window: &mut Window<N>,
        instructions: Range,
    ) -> Result<(), TableError> {
        let Range { start: mut at, end } = instructions;
        let mut location = self.row.range.start;
        while at < end {
            let bytes = window.at(memory, at, LONGEST);
            if bytes.is_empty() {
                return Err(TableError::Unreadable(at));
            }
            let mut cursor = Cursor::new(at, bytes, end);
            // As long as the next instruction is sure to be at hand.
            let enough = if cursor.end() == end { 1 } else { LONGEST };
            loop {
                if let Some(next) = self.step(&mut cursor, location)? {
                    if next > self.pc {
                        self.row.range = Range { start: location, end: next.min(self.row.range.end) };
                        return Ok(());
                    }
                    location = next;
                }
                if cursor.left() < enough {
                    break;
                }
            }
            at = cursor.address();
        }
        self.row.range.start = location;
        // An expression may reach beyond the end.
        if at > end { Err(TableError::CutShort) } else { Ok(()) }
    }

    /// Executes one instruction in the row that begins at `location`. An address is where it says that the next begins.
    #[inline(always)]
    fn step(&mut self, cursor: &mut Cursor<'_>, location: u64) -> Result<Option<u64>, TableError> {
        let code = cursor.u8()?;
        let low = code & 0x3f;
        match code {
            0x40..=0x7f => return self.moved(code, location, low.into()).map(Some),
            cfa::DEF_CFA_OFFSET => {
                let offset = cursor.uleb()? as i64;
                self.redefine_cfa(code, None, Some(offset))?;
            }
            0x80..=0xbf => {
                let offset = cursor.uleb()?;
                self.set(low.into(), RegisterRule::Offset(self.factored(offset)));
            }
            cfa::NOP => {}
            cfa::ADVANCE_LOC1 => return self.moved(code, location, cursor.u8()?.into()).map(Some),
            cfa::ADVANCE_LOC2 => return self.moved(code, location, cursor.u16()?.into()).map(Some),
            cfa::ADVANCE_LOC4 => return self.moved(code, location, cursor.u32()?.into()).map(Some),
            cfa::DEF_CFA => {
                let register = register(cursor)?;
                self.row.state.cfa = CfaRule::RegisterOffset { register, offset: cursor.uleb()? as i64 };
            }
            cfa::DEF_CFA_REGISTER => self.redefine_cfa(code, Some(register(cursor)?), None)?,
            cfa::REMEMBER_STATE => self.remember()?,
            cfa::RESTORE_STATE => self.restore_state()?,
            0xc0..=0xff => self.restore(code, low.into())?,
            cfa::SET_LOC => {
                let next = self.set_loc(*cursor, location)?;
                *cursor = next.1;
                return Ok(Some(next.0));
            }
            _ => *cursor = self.step_rare(code, *cursor)?,
        }
        Ok(None)
    }

    /// By value, so that the place can stay in registers for the others.
    #[inline(never)]
    fn step_rare<'b>(&mut self, code: u8, mut cursor: Cursor<'b>) -> Result<Cursor<'b>, TableError> {
        let place = &mut cursor;
        match code {
            cfa::DEF_CFA_SF => {
                let register = register(place)?;
                let offset = self.factored_signed(place.sleb()?);
                self.row.state.cfa = CfaRule::RegisterOffset { register, offset };
            }
            cfa::DEF_CFA_OFFSET_SF => {
                let offset = self.factored_signed(place.sleb()?);
                self.redefine_cfa(code, None, Some(offset))?;
            }
            cfa::DEF_CFA_EXPRESSION => self.row.state.cfa = CfaRule::Expression(expression(place)?),
            cfa::GNU_ARGS_SIZE => _ = place.uleb()?,
            cfa::AARCH64_NEGATE_RA_STATE if self.row.architecture == Architecture::Arm64 => self.flip_sign(1),
            cfa::AARCH64_NEGATE_RA_STATE_WITH_PC if self.row.architecture == Architecture::Arm64 => {
                self.flip_sign(3);
            }
            _ => self.step_register(code, place)?,
        }
        Ok(cursor)
    }

    /// The instructions that give a register a rule. The register is the first operand of all.
    fn step_register(&mut self, code: u8, cursor: &mut Cursor<'_>) -> Result<(), TableError> {
        if !cfa::REGISTER_INSTRUCTIONS.contains(&code) {
            return Err(TableError::Instruction(code.into()));
        }
        let register = cursor.uleb()?;
        let rule = match code {
            cfa::RESTORE_EXTENDED => return self.restore(code, register),
            cfa::UNDEFINED => RegisterRule::Undefined,
            cfa::SAME_VALUE => RegisterRule::SameValue,
            cfa::REGISTER => RegisterRule::Register(self::register(cursor)?),
            cfa::OFFSET_EXTENDED => RegisterRule::Offset(self.factored(cursor.uleb()?)),
            cfa::OFFSET_EXTENDED_SF => RegisterRule::Offset(self.factored_signed(cursor.sleb()?)),
            cfa::GNU_NEGATIVE_OFFSET_EXTENDED => {
                RegisterRule::Offset(self.factored(cursor.uleb()?).wrapping_neg())
            }
            cfa::VAL_OFFSET => RegisterRule::ValOffset(self.factored(cursor.uleb()?)),
            cfa::VAL_OFFSET_SF => RegisterRule::ValOffset(self.factored_signed(cursor.sleb()?)),
            cfa::EXPRESSION => RegisterRule::Expression(expression(cursor)?),
            cfa::VAL_EXPRESSION => RegisterRule::ValExpression(expression(cursor)?),
            _ => return Err(TableError::Instruction(code.into())),
        };
        self.set(register, rule);
        Ok(())
    }

    /// The address `delta` units of code on.
    #[inline(always)]
    fn moved(&self, code: u8, location: u64, delta: u64) -> Result<u64, TableError> {
        if self.initial.is_none() {
            return Err(TableError::Misplaced(code.into()));
        }
        let delta = delta.checked_mul(self.cie.code_factor);
        delta.and_then(|delta| location.checked_add(delta)).ok_or(TableError::Location(location))
    }

    #[inline(never)]
    fn set_loc<'b>(&self, mut cursor: Cursor<'b>, location: u64) -> Result<(u64, Cursor<'b>), TableError> {
        if self.initial.is_none() {
            return Err(TableError::Misplaced(cfa::SET_LOC.into()));
        }
        match Pointer::read(&mut cursor, self.cie.encoding, &self.bases)? {
            Pointer::Direct(next) if next >= location => Ok((next, cursor)),
            Pointer::Direct(_) => Err(TableError::Location(location)),
            Pointer::Indirect(_) => Err(TableError::PointerEncoding(self.cie.encoding.into())),
        }
    }

    #[inline]
    fn factored(&self, offset: u64) -> i64 {
        self.factored_signed(offset as i64)
    }

    #[inline]
    fn factored_signed(&self, offset: i64) -> i64 {
        offset.wrapping_mul(self.cie.data_factor)
    }

    #[inline(always)]
    fn set(&mut self, register: u64, rule: RegisterRule) {
        if let Some(slot) = self.row.slot(register) {
            self.row.state.set(slot, rule);
        }
    }

    /// Changes the register or the offset of a CFA that has both.
    #[inline(always)]
    fn redefine_cfa(&mut self, code: u8, to: Option<u16>, by: Option<i64>) -> Result<(), TableError> {
        let CfaRule::RegisterOffset { register, offset } = &mut self.row.state.cfa else {
            return Err(TableError::Misplaced(code.into()));
        };
        *register = to.unwrap_or(*register);
        *offset = by.unwrap_or(*offset);
        Ok(())
    }

    #[inline]
    fn restore(&mut self, code: u8, register: u64) -> Result<(), TableError> {
        let initial = self.initial.ok_or(TableError::Misplaced(code.into()))?;
        if let Some(slot) = self.row.slot(register) {
            self.row.state.set(slot, initial.get(slot));
        } else if register == SIGN_REGISTER && self.row.architecture == Architecture::Arm64 {
            self.row.state.sign = initial.sign;
        }
        Ok(())
    }

    #[inline]
    fn remember(&mut self) -> Result<(), TableError> {
        let state = self.states.get_mut(*self.depth).ok_or(TableError::StatesFull)?;
        state.copy_from(&self.row.state);
        *self.depth = self.depth.wrapping_add(1);
        Ok(())
    }

    /// The CFA is restored, too, as compilers expect.
    #[inline]
    fn restore_state(&mut self) -> Result<(), TableError> {
        let depth = self.depth.checked_sub(1).ok_or(TableError::NoState)?;
        let state = self.states.get(depth).ok_or(TableError::NoState)?;
        self.row.state.copy_from(state);
        *self.depth = depth;
        Ok(())
    }

    fn flip_sign(&mut self, bits: u8) {
        self.row.state.sign = self.row.state.sign.flipped(bits);
    }
}

/// A register number that a rule refers to.
#[inline(always)]
fn register(cursor: &mut Cursor<'_>) -> Result<u16, TableError> {
    let number = cursor.uleb()?;
    u16::try_from(number).map_err(|_| TableError::RegisterNumber(number))
}

/// Passes over an expression.
fn expression(cursor: &mut Cursor<'_>) -> Result<Expression, TableError> {
    let length = u32::try_from(cursor.uleb()?).map_err(|_| TableError::CutShort)?;
    let address = cursor.address();
    cursor.skip(length.into())?;
    Ok(Expression { address, length })
}

/// `DW_CFA_*` (DWARF 5, section 7.24; the extensions: LSB 5.0, AADWARF64).
mod cfa {
    pub(super) const NOP: u8 = 0x00;
    pub(super) const SET_LOC: u8 = 0x01;
    pub(super) const ADVANCE_LOC1: u8 = 0x02;
    pub(super) const ADVANCE_LOC2: u8 = 0x03;
    pub(super) const ADVANCE_LOC4: u8 = 0x04;
    pub(super) const OFFSET_EXTENDED: u8 = 0x05;
    pub(super) const RESTORE_EXTENDED: u8 = 0x06;
    pub(super) const UNDEFINED: u8 = 0x07;
    pub(super) const SAME_VALUE: u8 = 0x08;
    pub(super) const REGISTER: u8 = 0x09;
    pub(super) const REMEMBER_STATE: u8 = 0x0a;
    pub(super) const RESTORE_STATE: u8 = 0x0b;
    pub(super) const DEF_CFA: u8 = 0x0c;
    pub(super) const DEF_CFA_REGISTER: u8 = 0x0d;
    pub(super) const DEF_CFA_OFFSET: u8 = 0x0e;
    pub(super) const DEF_CFA_EXPRESSION: u8 = 0x0f;
    pub(super) const EXPRESSION: u8 = 0x10;
    pub(super) const OFFSET_EXTENDED_SF: u8 = 0x11;
    pub(super) const DEF_CFA_SF: u8 = 0x12;
    pub(super) const DEF_CFA_OFFSET_SF: u8 = 0x13;
    pub(super) const VAL_OFFSET: u8 = 0x14;
    pub(super) const VAL_OFFSET_SF: u8 = 0x15;
    pub(super) const VAL_EXPRESSION: u8 = 0x16;
    pub(super) const AARCH64_NEGATE_RA_STATE_WITH_PC: u8 = 0x2c;
    pub(super) const AARCH64_NEGATE_RA_STATE: u8 = 0x2d;
    pub(super) const GNU_ARGS_SIZE: u8 = 0x2e;
    pub(super) const GNU_NEGATIVE_OFFSET_EXTENDED: u8 = 0x2f;

    pub(super) const REGISTER_INSTRUCTIONS: [u8; 11] = [
        OFFSET_EXTENDED,
        RESTORE_EXTENDED,
        UNDEFINED,
        SAME_VALUE,
        REGISTER,
        EXPRESSION,
        OFFSET_EXTENDED_SF,
        VAL_OFFSET,
        VAL_OFFSET_SF,
        VAL_EXPRESSION,
        GNU_NEGATIVE_OFFSET_EXTENDED,
    ];
}
