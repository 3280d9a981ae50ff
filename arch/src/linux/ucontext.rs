//! The `ucontext_t` that the kernel pushes for a signal handler (`SA_SIGINFO`'s third argument).
//!
//! Sources: `arch/{x86,arm64}/include/uapi/asm/{ucontext,sigcontext}.h`.

use crate::bytes::{need, x86_64_registers};
use crate::{Architecture, Registers, RegistersError};
use core::mem::offset_of;
use static_assertions::{const_assert, const_assert_eq};

#[repr(C)]
struct StackT {
    ss_sp: u64,
    ss_flags: i32,
    ss_size: u64,
}

/// `struct sigcontext` of x86_64, as far as it is read.
#[repr(C)]
struct SigcontextX86_64 {
    r8: u64,
    r9: u64,
    r10: u64,
    r11: u64,
    r12: u64,
    r13: u64,
    r14: u64,
    r15: u64,
    rdi: u64,
    rsi: u64,
    rbp: u64,
    rbx: u64,
    rdx: u64,
    rax: u64,
    rcx: u64,
    rsp: u64,
    rip: u64,
    eflags: u64,
}

#[repr(C)]
struct UcontextX86_64 {
    uc_flags: u64,
    uc_link: u64,
    uc_stack: StackT,
    uc_mcontext: SigcontextX86_64,
}

/// `struct sigcontext` of arm64, as far as it is read.
#[repr(C, align(16))]
struct SigcontextArm64 {
    fault_address: u64,
    regs: [u64; 31],
    sp: u64,
    pc: u64,
    pstate: u64,
}

#[repr(C)]
struct UcontextArm64 {
    uc_flags: u64,
    uc_link: u64,
    uc_stack: StackT,
    /// `sigset_t` and the room that the kernel keeps for a larger one: 1,024 bits in all.
    uc_sigmask: [u64; 16],
    uc_mcontext: SigcontextArm64,
}

const_assert_eq!(size_of::<StackT>(), 24);
const_assert_eq!(offset_of!(UcontextX86_64, uc_mcontext), 40);
const_assert_eq!(offset_of!(UcontextX86_64, uc_mcontext.rsp), 160);
const_assert_eq!(offset_of!(UcontextX86_64, uc_mcontext.rip), 168);
const_assert_eq!(size_of::<UcontextX86_64>(), 184);
const_assert_eq!(offset_of!(UcontextArm64, uc_mcontext), 176);
const_assert_eq!(offset_of!(UcontextArm64, uc_mcontext.regs), 184);
const_assert_eq!(offset_of!(UcontextArm64, uc_mcontext.pc), 440);

const SIZE_X86_64: usize = size_of::<UcontextX86_64>();
/// Up to `pstate`: the alignment's padding and the records after it are not read.
const SIZE_ARM64: usize = offset_of!(UcontextArm64, uc_mcontext.pstate) + 8;

/// How many bytes of a `ucontext_t` of `architecture` [`from_ucontext`] reads.
pub const fn ucontext_bytes(architecture: Architecture) -> usize {
    match architecture {
        Architecture::X86_64 => SIZE_X86_64,
        Architecture::Arm64 => SIZE_ARM64,
    }
}

/// The greatest of [`ucontext_bytes`].
pub const UCONTEXT_BYTES_MAX: usize = SIZE_ARM64;

const_assert!(SIZE_X86_64 <= UCONTEXT_BYTES_MAX);

/// The registers in a `ucontext_t` of `architecture`, given as bytes.
///
/// # Errors
/// Too few bytes: x86_64 needs 184, arm64 456.
///
/// # Signal safety
/// Safe.
pub fn from_ucontext(architecture: Architecture, bytes: &[u8]) -> Result<Registers, RegistersError> {
    match architecture {
        Architecture::X86_64 => {
            need(bytes, SIZE_X86_64)?;
            Ok(Registers::X86_64(x86_64_registers!(bytes, UcontextX86_64, [uc_mcontext.], eflags)))
        }
        Architecture::Arm64 => {
            need(bytes, SIZE_ARM64)?;
            Ok(Registers::Arm64(super::prstatus::arm64_words(
                bytes.get(offset_of!(UcontextArm64, uc_mcontext.regs)..).unwrap_or(&[]),
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// A `ucontext_t` whose every word holds its own byte offset.
    fn numbered(words: usize) -> Vec<u8> {
        (0..words as u64).flat_map(|n| (n * 8).to_le_bytes()).collect()
    }

    #[test]
    fn x86_64_words_come_from_the_offsets_of_the_kernel_header() {
        let Ok(Registers::X86_64(r)) = from_ucontext(Architecture::X86_64, &numbered(23)) else { panic!() };
        assert_eq!((r.r8, r.r15, r.rdi, r.rsi, r.rbp), (40, 96, 104, 112, 120));
        assert_eq!((r.rbx, r.rdx, r.rax, r.rcx, r.rsp, r.rip, r.rflags), (128, 136, 144, 152, 160, 168, 176));
    }

    #[test]
    fn arm64_words_come_from_the_offsets_of_the_kernel_header() {
        let Ok(Registers::Arm64(r)) = from_ucontext(Architecture::Arm64, &numbered(57)) else { panic!() };
        assert_eq!((r.x[0], r.x[30], r.sp, r.pc, r.pstate), (184, 424, 432, 440, 448));
    }

    #[test]
    fn one_byte_too_few_is_an_error_that_says_so() {
        for (architecture, needed) in [(Architecture::X86_64, 184), (Architecture::Arm64, 456)] {
            let bytes = numbered(64);
            assert!(from_ucontext(architecture, &bytes[..needed]).is_ok());
            assert_eq!(
                from_ucontext(architecture, &bytes[..needed - 1]),
                Err(RegistersError::TooShort { needed, given: needed - 1 })
            );
        }
    }
}
