//! The opcode maps: what follows an opcode, and which operand it writes.

/// What follows an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Immediate {
    None,
    Byte,
    Two,
    /// Four bytes, two with an operand size prefix.
    Four,
    /// Eight bytes with REX.W, else as `Four`.
    Eight,
    /// An address of eight bytes.
    Address,
    /// A byte, if the ModRM byte's register field is 0 or 1.
    ByteOfTest,
    /// As `Four`, under the same condition.
    FourOfTest,
}

/// Which operands of a ModRM byte an instruction writes that matter: integer registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writes {
    None,
    /// What the field `rm` names.
    Rm,
    /// What the field `reg` names.
    Reg,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) modrm: Option<Writes>,
    pub(super) immediate: Immediate,
}

const fn bare(immediate: Immediate) -> Option<Shape> {
    Some(Shape { modrm: None, immediate })
}

const fn with(writes: Writes, immediate: Immediate) -> Option<Shape> {
    Some(Shape { modrm: Some(writes), immediate })
}

/// Opcodes of one byte. None: not valid in 64-bit mode, or a prefix, or not taken for granted.
pub(super) const fn one_byte(opcode: u8) -> Option<Shape> {
    use Immediate::{Address, Byte, ByteOfTest, Eight, Four, FourOfTest, None as No, Two};
    match opcode {
        // cmp
        0x38..=0x3b => with(Writes::None, No),
        // add, or, adc, sbb, and, sub, xor
        0x00..=0x3f => match opcode & 7 {
            0 | 1 => with(Writes::Rm, No),
            2 | 3 => with(Writes::Reg, No),
            4 => bare(Byte),
            5 => bare(Four),
            _ => None,
        },
        0x50..=0x5f | 0x6c..=0x6f | 0x90..=0x99 | 0x9b..=0x9f => bare(No),
        0x63 | 0x8a | 0x8b | 0x8d => with(Writes::Reg, No),
        0x68 => bare(Four),
        0x69 => with(Writes::Reg, Four),
        0x6a => bare(Byte),
        0x6b => with(Writes::Reg, Byte),
        0x70..=0x7f | 0xe0..=0xe3 | 0xeb => bare(Byte),
        0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => with(Writes::Rm, Byte),
        0x81 | 0xc7 => with(Writes::Rm, Four),
        // test
        0x84 | 0x85 => with(Writes::None, No),
        0x86 | 0x87 => with(Writes::Both, No),
        0x88 | 0x89 | 0x8c | 0x8f | 0xd0..=0xd3 | 0xfe => with(Writes::Rm, No),
        0x8e | 0xd8..=0xdf => with(Writes::None, No),
        0xa0..=0xa3 => bare(Address),
        0xa4..=0xa7 | 0xaa..=0xaf | 0xc3 | 0xc9 | 0xcc | 0xf4 | 0xf5 | 0xf8..=0xfd => bare(No),
        0xa8 | 0xb0..=0xb7 | 0xcd => bare(Byte),
        0xa9 | 0xe8 | 0xe9 => bare(Four),
        0xb8..=0xbf => bare(Eight),
        0xc2 => bare(Two),
        0xf6 => with(Writes::Rm, ByteOfTest),
        0xf7 => with(Writes::Rm, FourOfTest),
        0xff => with(Writes::Rm, No),
        _ => None,
    }
}

/// Opcodes behind 0x0f.
pub(super) const fn two_bytes(opcode: u8) -> Option<Shape> {
    use Immediate::{Byte, Four, None as No};
    match opcode {
        // syscall, ud2, rdtsc, emms, cpuid
        0x05 | 0x0b | 0x31 | 0x77 | 0xa2 => bare(No),
        // Prefetches and nops with operands.
        0x0d | 0x18..=0x1f => with(Writes::None, No),
        0x10..=0x17 | 0x28..=0x2b | 0x2e | 0x2f | 0x51..=0x6f | 0x74..=0x76 | 0x7c | 0x7d | 0x7f => {
            with(Writes::None, No)
        }
        // cvttss2si and its like, movmskps, cmov.
        0x2c | 0x2d | 0x40..=0x50 | 0xd7 => with(Writes::Reg, No),
        0x70..=0x73 | 0xc2 | 0xc4 | 0xc6 => with(Writes::None, Byte),
        0x7e | 0x90..=0x9f => with(Writes::Rm, No),
        0x80..=0x8f => bare(Four),
        0xa3 | 0xae => with(Writes::None, No),
        0xa4 | 0xac | 0xba => with(Writes::Rm, Byte),
        0xa5 | 0xab | 0xad | 0xb0 | 0xb1 | 0xb3 | 0xbb | 0xc7 => with(Writes::Rm, No),
        0xaf | 0xb6..=0xb8 | 0xbc..=0xbf => with(Writes::Reg, No),
        0xc0 | 0xc1 => with(Writes::Both, No),
        0xc3 => with(Writes::None, No),
        0xc5 => with(Writes::Reg, Byte),
        // bswap
        0xc8..=0xcf => bare(No),
        0xd0..=0xfe => with(Writes::None, No),
        _ => None,
    }
}
