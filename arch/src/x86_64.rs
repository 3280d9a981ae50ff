//! The x86_64 register file.

use static_assertions::const_assert_eq;

/// The integer registers of an x86_64 thread, in the order of their DWARF numbers (System V ABI, figure 3.36), with
/// the flags last.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RegistersX86_64 {
    pub rax: u64,
    pub rdx: u64,
    pub rcx: u64,
    pub rbx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rbp: u64,
    pub rsp: u64,
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rip: u64,
    pub rflags: u64,
}

const_assert_eq!(size_of::<RegistersX86_64>(), 18 * 8);
const_assert_eq!(core::mem::offset_of!(RegistersX86_64, rsp), 7 * 8);
const_assert_eq!(core::mem::offset_of!(RegistersX86_64, rip), 16 * 8);

impl RegistersX86_64 {
    /// Names in the order of [`words`](Self::words).
    pub const NAMES: [&'static str; 18] = [
        "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
        "r14", "r15", "rip", "rflags",
    ];

    /// All registers, in DWARF order: word `n` is DWARF register `n` up to 16 (rip, the return address column), then
    /// the flags.
    ///
    /// # Signal safety
    /// Safe.
    pub const fn words(&self) -> [u64; 18] {
        [
            self.rax,
            self.rdx,
            self.rcx,
            self.rbx,
            self.rsi,
            self.rdi,
            self.rbp,
            self.rsp,
            self.r8,
            self.r9,
            self.r10,
            self.r11,
            self.r12,
            self.r13,
            self.r14,
            self.r15,
            self.rip,
            self.rflags,
        ]
    }

    /// The inverse of [`words`](Self::words).
    ///
    /// # Signal safety
    /// Safe.
    pub const fn from_words(words: [u64; 18]) -> Self {
        let [rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15, rip, rflags] =
            words;
        Self { rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15, rip, rflags }
    }
}
