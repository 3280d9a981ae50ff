//! `NT_PRSTATUS`: what `PTRACE_GETREGSET` returns, and the note of the same name in a core file, which holds the same
//! words inside `struct elf_prstatus`.
//!
//! Sources: `struct user_regs_struct` (x86), `struct user_pt_regs` (arm64), `include/uapi/linux/elfcore.h`.

use crate::bytes::{need, word, x86_64_registers};
use crate::{Architecture, Registers, RegistersArm64, RegistersError};
use core::mem::offset_of;
use static_assertions::const_assert_eq;

#[repr(C)]
struct UserRegsX86_64 {
    r15: u64,
    r14: u64,
    r13: u64,
    r12: u64,
    rbp: u64,
    rbx: u64,
    r11: u64,
    r10: u64,
    r9: u64,
    r8: u64,
    rax: u64,
    rcx: u64,
    rdx: u64,
    rsi: u64,
    rdi: u64,
    orig_rax: u64,
    rip: u64,
    cs: u64,
    eflags: u64,
    rsp: u64,
    ss: u64,
    fs_base: u64,
    gs_base: u64,
    ds: u64,
    es: u64,
    fs: u64,
    gs: u64,
}

/// The head of `struct elf_prstatus` on a 64-bit kernel, up to the registers.
#[repr(C)]
struct ElfPrstatusHead {
    pr_info: [i32; 3],
    pr_cursig: i16,
    pr_sigpend: u64,
    pr_sighold: u64,
    pr_pid: i32,
    pr_ppid: i32,
    pr_pgrp: i32,
    pr_sid: i32,
    pr_times: [[i64; 2]; 4],
}

const_assert_eq!(size_of::<UserRegsX86_64>(), 216);
const_assert_eq!(offset_of!(UserRegsX86_64, rip), 128);
const_assert_eq!(offset_of!(UserRegsX86_64, rsp), 152);
const_assert_eq!(size_of::<ElfPrstatusHead>(), 112);
const_assert_eq!(offset_of!(ElfPrstatusHead, pr_pid), 32);

/// The registers in an `NT_PRSTATUS` register set of `architecture`, as `PTRACE_GETREGSET` returns it.
///
/// # Errors
/// Too few bytes: x86_64 needs 216, arm64 272.
///
/// # Signal safety
/// Safe.
pub fn from_regset(architecture: Architecture, bytes: &[u8]) -> Result<Registers, RegistersError> {
    match architecture {
        Architecture::X86_64 => {
            need(bytes, size_of::<UserRegsX86_64>())?;
            Ok(Registers::X86_64(x86_64_registers!(bytes, UserRegsX86_64, [], eflags)))
        }
        Architecture::Arm64 => {
            need(bytes, size_of::<RegistersArm64>())?;
            Ok(Registers::Arm64(arm64_words(bytes)))
        }
    }
}

/// The registers in the descriptor of a core file's `NT_PRSTATUS` note.
///
/// # Errors
/// Too few bytes: x86_64 needs 328, arm64 384.
///
/// # Signal safety
/// Safe.
pub fn from_prstatus_note(architecture: Architecture, bytes: &[u8]) -> Result<Registers, RegistersError> {
    const HEAD: usize = size_of::<ElfPrstatusHead>();
    let regset = bytes.get(HEAD..).unwrap_or(&[]);
    from_regset(architecture, regset).map_err(|RegistersError::TooShort { needed, .. }| {
        RegistersError::TooShort { needed: needed + HEAD, given: bytes.len() }
    })
}

/// `struct user_pt_regs`: x0–x30, sp, pc, pstate, which is also how arm64's `sigcontext` stores them.
pub(super) fn arm64_words(bytes: &[u8]) -> RegistersArm64 {
    let mut words = [0; 34];
    words.iter_mut().enumerate().for_each(|(n, w)| *w = word(bytes, n * 8));
    RegistersArm64::from_words(words)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn numbered(words: usize) -> Vec<u8> {
        (0..words as u64).flat_map(|n| (n * 8).to_le_bytes()).collect()
    }

    #[test]
    fn x86_64_words_come_from_user_regs_struct() {
        let Ok(Registers::X86_64(r)) = from_regset(Architecture::X86_64, &numbered(27)) else { panic!() };
        assert_eq!((r.r15, r.r12, r.rbp, r.rbx, r.r8), (0, 24, 32, 40, 72));
        assert_eq!((r.rax, r.rcx, r.rdx, r.rsi, r.rdi), (80, 88, 96, 104, 112));
        assert_eq!((r.rip, r.rflags, r.rsp), (128, 144, 152), "not orig_rax (120), not cs (136)");
    }

    #[test]
    fn arm64_words_come_from_user_pt_regs() {
        let Ok(Registers::Arm64(r)) = from_regset(Architecture::Arm64, &numbered(34)) else { panic!() };
        assert_eq!((r.x[0], r.x[30], r.sp, r.pc, r.pstate), (0, 240, 248, 256, 264));
    }

    #[test]
    fn the_note_of_a_core_file_holds_the_same_words_112_bytes_in() {
        let note = numbered(14 + 34);
        let Ok(Registers::X86_64(r)) = from_prstatus_note(Architecture::X86_64, &note) else { panic!() };
        assert_eq!((r.r15, r.rip), (112, 112 + 128));
        let Ok(Registers::Arm64(r)) = from_prstatus_note(Architecture::Arm64, &note) else { panic!() };
        assert_eq!((r.x[0], r.pc), (112, 112 + 256));
    }

    #[test]
    fn one_byte_too_few_is_an_error_that_says_so() {
        let bytes = numbered(64);
        for (architecture, regset) in [(Architecture::X86_64, 216), (Architecture::Arm64, 272)] {
            let short = RegistersError::TooShort { needed: regset, given: regset - 1 };
            assert_eq!(from_regset(architecture, &bytes[..regset - 1]), Err(short));
            let needed = regset + 112;
            let short = RegistersError::TooShort { needed, given: needed - 1 };
            assert_eq!(from_prstatus_note(architecture, &bytes[..needed - 1]), Err(short));
            assert!(from_prstatus_note(architecture, &bytes[..needed]).is_ok());
        }
        assert!(from_prstatus_note(Architecture::Arm64, &[]).is_err());
    }
}
