//! One instruction: its size, and what it does to the stack.

use super::super::step::{Access, Base, Step};
use super::opcode::{Immediate, Shape, Writes, one_byte, two_bytes};
use super::{RBP, RSP};
use crate::memory::{Cursor, CutShort};

/// The longest instruction, in bytes.
pub(in super::super) const LONGEST: usize = 15;

/// The DWARF numbers of the registers in the order of their encoding.
const REGISTERS: [u16; 16] = [0, 2, 1, 3, RSP, RBP, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];

/// What the instruction at address `at` does, and its size.
pub(in super::super) fn decode(bytes: &[u8], at: u64) -> (Step, u64) {
    // A longer one is none to the processor, however much is at hand.
    let mut cursor = Cursor::new(at, bytes.get(..LONGEST).unwrap_or(bytes), u64::MAX);
    let step = instruction(&mut cursor).unwrap_or(Step::Unknown);
    (step, cursor.address().wrapping_sub(at))
}

/// What stands before the opcode.
#[derive(Clone, Copy, Default)]
struct Prefixes {
    /// REX.W: operands of 64 bits.
    wide: bool,
    /// REX.R, REX.X and REX.B: the upper bit of a register's number.
    reg: u8,
    index: u8,
    base: u8,
    /// Operands of 16 bits.
    short: bool,
    /// Addresses by fs or gs.
    segment: bool,
}

fn instruction(cursor: &mut Cursor<'_>) -> Result<Step, CutShort> {
    let mut prefixes = Prefixes::default();
    let mut opcode = cursor.u8()?;
    for _ in 0..LONGEST {
        match opcode {
            0x66 => prefixes.short = true,
            0x64 | 0x65 => prefixes.segment = true,
            // Also what cmov and branches are hinted by.
            0x26 | 0x2e | 0x36 | 0x3e | 0xf0 | 0xf2 | 0xf3 => {}
            _ => break,
        }
        opcode = cursor.u8()?;
    }
    if let rex @ 0x40..=0x4f = opcode {
        prefixes.wide = rex & 8 != 0;
        (prefixes.reg, prefixes.index, prefixes.base) = ((rex & 4) << 1, (rex & 2) << 2, (rex & 1) << 3);
        opcode = cursor.u8()?;
    }
    match opcode {
        0x0f => behind_0f(cursor, prefixes),
        0xc4 | 0xc5 | 0x62 => vector(cursor, opcode),
        _ => match one_byte(opcode) {
            Some(shape) => usual(cursor, prefixes, opcode, shape),
            None => Ok(Step::Unknown),
        },
    }
}

fn behind_0f(cursor: &mut Cursor<'_>, prefixes: Prefixes) -> Result<Step, CutShort> {
    let opcode = cursor.u8()?;
    let shape = match opcode {
        // The maps of three bytes: vectors, and crc32 and movbe, which write a temporary register.
        0x38 => {
            cursor.skip(1)?;
            Some(Shape { modrm: Some(Writes::None), immediate: Immediate::None })
        }
        0x3a => {
            cursor.skip(1)?;
            Some(Shape { modrm: Some(Writes::None), immediate: Immediate::Byte })
        }
        _ => two_bytes(opcode),
    };
    let Some(shape) = shape else { return Ok(Step::Unknown) };
    let operands = Operands::read(cursor, prefixes, shape)?;
    Ok(match opcode {
        0x0b => Step::Trap,
        0x80..=0x8f => Step::Branch(operands.target(cursor)),
        // bswap
        0xc8..=0xcf => writes(opcode & 7 | prefixes.base),
        _ => operands.written(shape),
    })
}

/// VEX and EVEX: the prefix says which map the opcode is of.
fn vector(cursor: &mut Cursor<'_>, prefix: u8) -> Result<Step, CutShort> {
    let first = cursor.u8()?;
    let map = match prefix {
        0xc5 => 1,
        0xc4 => first & 0x1f,
        _ => first & 7,
    };
    cursor.skip(match prefix {
        0xc5 => 0,
        0xc4 => 1,
        _ => 2,
    })?;
    let opcode = cursor.u8()?;
    let immediate = match (map, opcode) {
        // vzeroupper
        (1, 0x77) => return Ok(Step::Plain),
        (1, 0x70..=0x73 | 0xc2 | 0xc4..=0xc6) | (3, _) => Immediate::Byte,
        (1 | 2, _) => Immediate::None,
        _ => return Ok(Step::Unknown),
    };
    Operands::read(cursor, Prefixes::default(), Shape { modrm: Some(Writes::None), immediate })?;
    Ok(Step::Plain)
}

fn usual(cursor: &mut Cursor<'_>, prefixes: Prefixes, opcode: u8, shape: Shape) -> Result<Step, CutShort> {
    let operands = Operands::read(cursor, prefixes, shape)?;
    let register = opcode & 7 | prefixes.base;
    Ok(match opcode {
        0x50..=0x57 if !prefixes.short => push(Some(register)),
        0x58..=0x5f if !prefixes.short && register != 4 => pop(register),
        0x50..=0x5f | 0x9c | 0x9d => Step::Unknown,
        0x68 | 0x6a if !prefixes.short => Step::Stack(-8),
        0x68 | 0x6a => Step::Unknown,
        0x70..=0x7f | 0xe0..=0xe3 => Step::Branch(operands.target(cursor)),
        0xe9 | 0xeb => Step::Jump(Some(operands.target(cursor))),
        0xc3 => Step::Return,
        0xc9 => Step::Leave,
        // ret with a number, call, int3, int, hlt.
        0xc2 | 0xe8 | 0xcc | 0xcd | 0xf4 => Step::Unknown,
        // nop, and the exchanges with rax behind it.
        0x90 if prefixes.base == 0 => Step::Plain,
        0x90..=0x97 | 0xb0..=0xbf => writes(register),
        0xff => match operands.reg & 7 {
            0 | 1 => operands.written(shape),
            // Through a word of the image's own that the loader fills in: a stub, not a table.
            4 if operands.rm == Rm::Code => Step::Return,
            4 => Step::Jump(None),
            6 if !prefixes.short => Step::Stack(-8),
            _ => Step::Unknown,
        },
        0x8f => Step::Unknown,
        // Those of the group that only compare: cmp, test.
        0x80 | 0x81 | 0x83 if operands.reg & 7 == 7 => Step::Plain,
        0xf6 | 0xf7 => match operands.reg & 7 {
            0 | 1 | 4..=7 => Step::Plain,
            _ => operands.written(shape),
        },
        0x81 | 0x83 if operands.rm == Rm::Register(4) && prefixes.wide => match operands.reg & 7 {
            0 => Step::Stack(operands.immediate),
            5 => Step::Stack(operands.immediate.wrapping_neg()),
            _ => Step::Unknown,
        },
        0x89 | 0x8b | 0x8d if prefixes.wide => operands.moved(opcode, shape),
        _ => operands.written(shape),
    })
}

/// What the fields `mod` and `rm` name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rm {
    Register(u8),
    /// Memory by rsp or rbp, without an index.
    Stack(Base, i64),
    /// Memory at a distance from the next instruction.
    Code,
    Memory,
}

struct Operands {
    reg: u8,
    rm: Rm,
    immediate: i64,
}

impl Operands {
    fn read(cursor: &mut Cursor<'_>, prefixes: Prefixes, shape: Shape) -> Result<Self, CutShort> {
        let mut operands = Self { reg: 0, rm: Rm::Memory, immediate: 0 };
        if shape.modrm.is_some() {
            let byte = cursor.u8()?;
            operands.reg = byte >> 3 & 7 | prefixes.reg;
            operands.rm = rm(cursor, prefixes, byte)?;
        }
        let tests = operands.reg & 6 == 0;
        let four = if prefixes.short { Immediate::Two } else { Immediate::Four };
        let immediate = match shape.immediate {
            Immediate::Four => four,
            Immediate::Eight if !prefixes.wide => four,
            Immediate::ByteOfTest if tests => Immediate::Byte,
            Immediate::FourOfTest if tests => four,
            Immediate::ByteOfTest | Immediate::FourOfTest => Immediate::None,
            other => other,
        };
        operands.immediate = match immediate {
            Immediate::Byte => i64::from(cursor.u8()? as i8),
            Immediate::Two => i64::from(cursor.u16()? as i16),
            Immediate::Four => i64::from(cursor.u32()? as i32),
            Immediate::Eight | Immediate::Address => cursor.u64()? as i64,
            _ => 0,
        };
        Ok(operands)
    }

    /// Where a branch goes, from the end of the instruction.
    fn target(&self, cursor: &Cursor<'_>) -> u64 {
        cursor.address().wrapping_add_signed(self.immediate)
    }

    /// What an instruction does that writes the operands its shape says.
    fn written(&self, shape: Shape) -> Step {
        let rm = match self.rm {
            Rm::Register(register) => writes(register),
            _ => Step::Plain,
        };
        match shape.modrm {
            Some(Writes::Rm) => rm,
            Some(Writes::Reg) => writes(self.reg),
            Some(Writes::Both) if rm == Step::Plain => writes(self.reg),
            Some(Writes::Both) => rm,
            Some(Writes::None) | None => Step::Plain,
        }
    }

    /// `mov` and `lea` of 64 bits: what sets the stack and frame pointers, and saves registers.
    fn moved(&self, opcode: u8, shape: Shape) -> Step {
        const SP: u8 = 4;
        const FP: u8 = 5;
        let (to, from) = match (opcode, self.rm) {
            (0x89, Rm::Register(rm)) => (rm, Rm::Register(self.reg)),
            (0x89, Rm::Stack(base, offset)) => return Step::Store(self.access(base, offset)),
            (0x8b, Rm::Stack(base, offset)) if self.reg != SP => {
                return Step::Load(self.access(base, offset));
            }
            (_, rm) => (self.reg, rm),
        };
        match (opcode, to, from) {
            (0x89 | 0x8b, FP, Rm::Register(SP)) => Step::FrameFromStack(0),
            (0x89 | 0x8b, SP, Rm::Register(FP)) => Step::StackFromFrame(0),
            (0x8d, FP, Rm::Stack(Base::Stack, offset)) => Step::FrameFromStack(offset),
            (0x8d, SP, Rm::Stack(Base::Stack, offset)) => Step::Stack(offset),
            (0x8d, SP, Rm::Stack(Base::Frame, offset)) => Step::StackFromFrame(offset),
            _ => self.written(shape),
        }
    }

    fn access(&self, base: Base, offset: i64) -> Access {
        Access { registers: [number(self.reg), None], base, offset, before: 0, after: 0 }
    }
}

/// Reads what follows the ModRM byte: a SIB byte, a displacement.
fn rm(cursor: &mut Cursor<'_>, prefixes: Prefixes, modrm: u8) -> Result<Rm, CutShort> {
    let (mode, low) = (modrm >> 6, modrm & 7);
    if mode == 3 {
        return Ok(Rm::Register(low | prefixes.base));
    }
    let mut base = (low != 4).then_some(low | prefixes.base);
    let mut absolute = mode == 0 && low == 5;
    if low == 4 {
        let sib = cursor.u8()?;
        let index = sib >> 3 & 7 | prefixes.index;
        absolute = mode == 0 && sib & 7 == 5;
        base = (index == 4).then_some(sib & 7 | prefixes.base);
    }
    let displacement = match mode {
        1 => i64::from(cursor.u8()? as i8),
        2 => i64::from(cursor.u32()? as i32),
        _ if absolute => i64::from(cursor.u32()? as i32),
        _ => 0,
    };
    Ok(match base {
        Some(4) if !prefixes.segment => Rm::Stack(Base::Stack, displacement),
        _ if mode == 0 && low == 5 => Rm::Code,
        Some(5) if !prefixes.segment && !absolute => Rm::Stack(Base::Frame, displacement),
        _ => Rm::Memory,
    })
}

fn number(register: u8) -> Option<u16> {
    REGISTERS.get(usize::from(register)).copied()
}

/// An instruction that writes a register and nothing else that matters.
const fn writes(register: u8) -> Step {
    if register == 4 || register == 5 { Step::Unknown } else { Step::Plain }
}

fn push(register: Option<u8>) -> Step {
    let registers = [register.and_then(number), None];
    Step::Store(Access { registers, base: Base::Stack, offset: 0, before: -8, after: 0 })
}

fn pop(register: u8) -> Step {
    Step::Load(Access {
        registers: [number(register), None],
        base: Base::Stack,
        offset: 0,
        before: 0,
        after: 8,
    })
}
