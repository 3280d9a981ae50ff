//! What `emulate.py` writes: the registers and the stack before each instruction, as differences.

use freezeframe_arch::{Architecture, Registers, RegistersArm64, RegistersX86_64};
use freezeframe_unwind::memory::SliceMemory;
use freezeframe_unwind::rule::StackBounds;
use std::fmt;
use std::slice::Iter;

/// Stands where the registers that have changed would be.
const END: u64 = u64::MAX;

/// A trace that is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadTrace {
    /// It ends before its end mark.
    CutShort,
    /// A word was written outside the stack.
    OutsideStack(u64),
    /// The stack ends before it begins.
    NoStack,
}

impl fmt::Display for BadTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutShort => write!(f, "the trace ends before its end mark"),
            Self::OutsideStack(address) => write!(f, "a write to {address:#x}, outside the stack"),
            Self::NoStack => write!(f, "the trace has no stack"),
        }
    }
}

impl std::error::Error for BadTrace {}

/// The thread before one instruction.
#[derive(Debug)]
pub struct Instant<'a> {
    /// All registers.
    pub registers: Registers,
    /// The whole stack.
    pub stack: SliceMemory<'a>,
}

/// Plays a trace back.
#[derive(Debug)]
pub struct Trace<'a> {
    architecture: Architecture,
    words: Iter<'a, u64>,
    bounds: StackBounds,
    registers: [u64; Registers::MAX_WORDS],
    stack: Vec<u8>,
    exit_code: Option<u64>,
}

impl<'a> Trace<'a> {
    /// A trace of `architecture`'s code.
    ///
    /// # Errors
    /// If it does not begin like one.
    pub fn new(architecture: Architecture, words: &'a [u64]) -> Result<Self, BadTrace> {
        let mut words = words.iter();
        let (Some(low), Some(high)) = (words.next(), words.next()) else { return Err(BadTrace::CutShort) };
        let size = high.checked_sub(*low).filter(|size| *size < 1 << 28).ok_or(BadTrace::NoStack)?;
        Ok(Self {
            architecture,
            words,
            bounds: StackBounds { low: *low, high: *high },
            registers: [0; Registers::MAX_WORDS],
            stack: vec![0; size as usize],
            exit_code: None,
        })
    }

    /// Where the stack is.
    pub const fn bounds(&self) -> StackBounds {
        self.bounds
    }

    /// The program's exit code, once the trace has come to its end.
    pub const fn exit_code(&self) -> Option<u64> {
        self.exit_code
    }

    /// The next instruction; none at the end.
    ///
    /// # Errors
    /// If the trace is damaged.
    pub fn advance(&mut self) -> Result<Option<Instant<'_>>, BadTrace> {
        let changed = self.word()?;
        if changed == END {
            self.exit_code = Some(self.word()?);
            return Ok(None);
        }
        for number in 0..self.registers.len() {
            if changed >> number & 1 != 0 {
                self.registers[number] = self.word()?;
            }
        }
        for _ in 0..self.word()? {
            let (address, value) = (self.word()?, self.word()?);
            let offset = address.wrapping_sub(self.bounds.low) as usize;
            let slot = self.stack.get_mut(offset..).and_then(|tail| tail.first_chunk_mut());
            *slot.ok_or(BadTrace::OutsideStack(address))? = value.to_le_bytes();
        }
        let stack = SliceMemory::new(self.bounds.low, &self.stack);
        Ok(Some(Instant { registers: self.registers(), stack }))
    }

    fn word(&mut self) -> Result<u64, BadTrace> {
        self.words.next().copied().ok_or(BadTrace::CutShort)
    }

    fn registers(&self) -> Registers {
        match self.architecture {
            Architecture::Arm64 => Registers::Arm64(RegistersArm64::from_words(self.registers)),
            Architecture::X86_64 => {
                let words = self.registers.first_chunk().expect("as many words as any architecture has");
                Registers::X86_64(RegistersX86_64::from_words(*words))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freezeframe_unwind::memory::Memory;

    #[test]
    fn a_trace_is_played_back_change_by_change() {
        let words = [
            0x1000,
            0x1040,
            1 << 31 | 1 << 32,
            0x1030,
            0x40_0000,
            0,
            1 << 32,
            0x40_0004,
            1,
            0x1038,
            7,
            END,
            3,
        ];
        let mut trace = Trace::new(Architecture::Arm64, &words).unwrap();
        let instant = trace.advance().unwrap().unwrap();
        assert_eq!((instant.registers.pc(), instant.registers.sp()), (0x40_0000, 0x1030));
        let mut instant = trace.advance().unwrap().unwrap();
        assert_eq!((instant.registers.pc(), instant.registers.sp()), (0x40_0004, 0x1030));
        assert_eq!((instant.stack.read_u64(0x1038), instant.stack.read_u64(0x1040)), (Some(7), None));
        assert!(trace.advance().unwrap().is_none());
        assert_eq!(trace.exit_code(), Some(3));
    }

    #[test]
    fn a_damaged_trace_is_an_error() {
        let error = |words: &[u64]| match Trace::new(Architecture::X86_64, words) {
            Ok(mut trace) => trace.advance().err(),
            Err(error) => Some(error),
        };
        assert_eq!(error(&[0]), Some(BadTrace::CutShort));
        assert_eq!(error(&[8, 0]), Some(BadTrace::NoStack));
        assert_eq!(error(&[0, 8]), Some(BadTrace::CutShort));
        assert_eq!(error(&[0, 8, 1, 5]), Some(BadTrace::CutShort));
        assert_eq!(error(&[0, 8, 0, 1, 8, 5]), Some(BadTrace::OutsideStack(8)));
        assert_eq!(error(&[0, 8, 0, 1, 4, 5]), Some(BadTrace::OutsideStack(4)));
    }
}
