//! A register file of either architecture.

use crate::{RegistersArm64, RegistersX86_64};

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// AMD64, Intel 64.
    X86_64,
    /// AArch64.
    Arm64,
}

impl Architecture {
    /// The architecture that this code was compiled for.
    #[cfg(target_arch = "x86_64")]
    pub const NATIVE: Self = Self::X86_64;
    /// The architecture that this code was compiled for.
    #[cfg(target_arch = "aarch64")]
    pub const NATIVE: Self = Self::Arm64;

    /// The usual lower-case name: `x86_64`, `arm64`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Arm64 => "arm64",
        }
    }
}

/// The integer registers of one thread, of either architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registers {
    /// Of an x86_64 thread.
    X86_64(RegistersX86_64),
    /// Of an arm64 thread.
    Arm64(RegistersArm64),
}

impl Registers {
    /// The most words that any architecture's register file has.
    pub const MAX_WORDS: usize = 34;

    /// Registers that are all zero, of the architecture that this code was compiled for.
    pub const ZERO: Self = match Architecture::NATIVE {
        Architecture::X86_64 => Self::X86_64(RegistersX86_64::from_words([0; 18])),
        Architecture::Arm64 => Self::Arm64(RegistersArm64 { x: [0; 31], sp: 0, pc: 0, pstate: 0 }),
    };

    /// Which architecture's registers these are.
    ///
    /// # Signal safety
    /// Safe, as is every method of this type.
    pub const fn architecture(&self) -> Architecture {
        match self {
            Self::X86_64(_) => Architecture::X86_64,
            Self::Arm64(_) => Architecture::Arm64,
        }
    }

    /// The program counter.
    pub const fn pc(&self) -> u64 {
        match self {
            Self::X86_64(r) => r.rip,
            Self::Arm64(r) => r.pc,
        }
    }

    /// The stack pointer.
    pub const fn sp(&self) -> u64 {
        match self {
            Self::X86_64(r) => r.rsp,
            Self::Arm64(r) => r.sp,
        }
    }

    /// The frame pointer: rbp or x29.
    pub const fn fp(&self) -> u64 {
        match self {
            Self::X86_64(r) => r.rbp,
            Self::Arm64(r) => r.fp(),
        }
    }

    /// The link register, raw; x86_64 has none.
    pub const fn lr(&self) -> Option<u64> {
        match self {
            Self::X86_64(_) => None,
            Self::Arm64(r) => Some(r.lr()),
        }
    }

    /// Writes all registers to `out` in the order of [`names`](Self::names) and returns how many there are.
    pub fn copy_words(&self, out: &mut [u64; Self::MAX_WORDS]) -> usize {
        fn fill(out: &mut [u64], words: &[u64]) -> usize {
            out.iter_mut().zip(words).for_each(|(to, from)| *to = *from);
            words.len()
        }
        match self {
            Self::X86_64(r) => fill(out, &r.words()),
            Self::Arm64(r) => fill(out, &r.words()),
        }
    }

    /// The names of the registers of an architecture, in the order in which they are stored.
    pub const fn names(architecture: Architecture) -> &'static [&'static str] {
        match architecture {
            Architecture::X86_64 => &RegistersX86_64::NAMES,
            Architecture::Arm64 => &RegistersArm64::NAMES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_dwarf_order_and_round_trip() {
        let mut words = [0; 18];
        words.iter_mut().zip(100..).for_each(|(w, n)| *w = n);
        let x86 = RegistersX86_64::from_words(words);
        assert_eq!(x86.words(), words);
        assert_eq!(
            (x86.rax, x86.rdx, x86.rcx, x86.rbx),
            (100, 101, 102, 103),
            "DWARF 0–3 are rax rdx rcx rbx"
        );
        assert_eq!((x86.rbp, x86.rsp, x86.rip, x86.rflags), (106, 107, 116, 117));

        let mut words = [0; 34];
        words.iter_mut().zip(200..).for_each(|(w, n)| *w = n);
        let arm = RegistersArm64::from_words(words);
        assert_eq!(arm.words(), words);
        assert_eq!((arm.fp(), arm.lr(), arm.sp, arm.pc, arm.pstate), (229, 230, 231, 232, 233));

        let mut out = [0; Registers::MAX_WORDS];
        assert_eq!(Registers::X86_64(x86).copy_words(&mut out), Registers::names(Architecture::X86_64).len());
        assert_eq!((out[7], out[17], out[18]), (107, 117, 0));
        assert_eq!(Registers::Arm64(arm).copy_words(&mut out), Registers::names(Architecture::Arm64).len());
        assert_eq!((out[29], out[33]), (229, 233));
    }

    #[test]
    fn roles_are_read_from_the_right_register() {
        let x86 = RegistersX86_64 { rip: 1, rsp: 2, rbp: 3, ..Default::default() };
        let x86 = Registers::X86_64(x86);
        assert_eq!((x86.pc(), x86.sp(), x86.fp(), x86.lr()), (1, 2, 3, None));
        let mut arm = RegistersArm64 { pc: 1, sp: 2, ..Default::default() };
        (arm.x[29], arm.x[30]) = (3, 4);
        let arm = Registers::Arm64(arm);
        assert_eq!((arm.pc(), arm.sp(), arm.fp(), arm.lr()), (1, 2, 3, Some(4)));
    }
}
