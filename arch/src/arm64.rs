//! The arm64 register file.

use static_assertions::const_assert_eq;

/// The integer registers of an arm64 thread. `x[29]` is the frame pointer, `x[30]` the link register. Values are raw:
/// return addresses may carry a pointer authentication code, see [`PacMask`](crate::PacMask).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RegistersArm64 {
    pub x: [u64; 31],
    pub sp: u64,
    pub pc: u64,
    pub pstate: u64,
}

const_assert_eq!(size_of::<RegistersArm64>(), 34 * 8);
const_assert_eq!(core::mem::offset_of!(RegistersArm64, sp), 31 * 8);
const_assert_eq!(core::mem::offset_of!(RegistersArm64, pc), 32 * 8);

impl RegistersArm64 {
    /// Names in the order of [`words`](Self::words).
    pub const NAMES: [&'static str; 34] = [
        "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
        "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "fp",
        "lr", "sp", "pc", "pstate",
    ];

    /// All registers: word `n` is DWARF register `n` up to 32 (AADWARF64: 31 is sp, 32 pc), then pstate.
    ///
    /// # Signal safety
    /// Safe.
    pub fn words(&self) -> [u64; 34] {
        let mut words = [0; 34];
        let (x, rest) = words.split_at_mut(31);
        x.copy_from_slice(&self.x);
        rest.copy_from_slice(&[self.sp, self.pc, self.pstate]);
        words
    }

    /// The inverse of [`words`](Self::words).
    ///
    /// # Signal safety
    /// Safe.
    pub fn from_words(words: [u64; 34]) -> Self {
        let mut x = [0; 31];
        x.iter_mut().zip(words).for_each(|(to, from)| *to = from);
        let [.., sp, pc, pstate] = words;
        Self { x, sp, pc, pstate }
    }

    /// The frame pointer, x29.
    pub const fn fp(&self) -> u64 {
        self.x[29]
    }

    /// The link register, x30, raw.
    pub const fn lr(&self) -> u64 {
        self.x[30]
    }
}
