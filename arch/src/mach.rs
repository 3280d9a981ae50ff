//! How Mach hands over registers: `thread_get_state`'s `ARM_THREAD_STATE64` and `x86_THREAD_STATE64`.
//!
//! Sources: `mach/arm/_structs.h`, `mach/i386/_structs.h`, `mach/{arm,i386}/thread_status.h`.

use crate::bytes::{need, word, x86_64_registers};
use crate::{Architecture, PacMask, Registers, RegistersArm64, RegistersError};
use core::mem::offset_of;
use static_assertions::const_assert_eq;

#[repr(C)]
struct ThreadStateX86_64 {
    rax: u64,
    rbx: u64,
    rcx: u64,
    rdx: u64,
    rdi: u64,
    rsi: u64,
    rbp: u64,
    rsp: u64,
    r8: u64,
    r9: u64,
    r10: u64,
    r11: u64,
    r12: u64,
    r13: u64,
    r14: u64,
    r15: u64,
    rip: u64,
    rflags: u64,
    cs: u64,
    fs: u64,
    gs: u64,
}

#[repr(C)]
struct ThreadStateArm64 {
    x: [u64; 29],
    fp: u64,
    lr: u64,
    sp: u64,
    pc: u64,
    cpsr: u32,
    /// arm64e: whether the four addresses are signed.
    flags: u32,
}

const_assert_eq!(size_of::<ThreadStateX86_64>(), 168);
const_assert_eq!(offset_of!(ThreadStateX86_64, rip), 128);
const_assert_eq!(size_of::<ThreadStateArm64>(), 272);
const_assert_eq!(offset_of!(ThreadStateArm64, pc), 256);

/// The number of a thread state with all integer registers, `ARM_THREAD_STATE64` or `x86_THREAD_STATE64`.
pub const fn thread_state_flavor(architecture: Architecture) -> i32 {
    match architecture {
        Architecture::X86_64 => 4,
        Architecture::Arm64 => 6,
    }
}

/// How many bytes a thread state of `architecture` has. The kernel counts them in words of four.
pub const fn thread_state_bytes(architecture: Architecture) -> usize {
    match architecture {
        Architecture::X86_64 => size_of::<ThreadStateX86_64>(),
        Architecture::Arm64 => size_of::<ThreadStateArm64>(),
    }
}

/// The greatest of [`thread_state_bytes`].
pub const THREAD_STATE_BYTES_MAX: usize = size_of::<ThreadStateArm64>();

/// The registers in a thread state of `architecture`, given as bytes.
///
/// In a process of arm64e the kernel signs sp and fp as well as pc and lr. The two that are no code addresses are used for
/// reading only, so they are stripped here; pc and lr stay raw, like every return address.
///
/// ```
/// use freezeframe_arch::{Architecture, PacMask, mach};
/// let mut state = [0; 272];
/// state[248..256].copy_from_slice(&0x1234_0001_6fd0_0000_u64.to_le_bytes());
/// let registers = mach::from_thread_state(Architecture::Arm64, &state, PacMask::from_address_bits(47))?;
/// assert_eq!(registers.sp(), 0x1_6fd0_0000);
/// # Ok::<(), freezeframe_arch::RegistersError>(())
/// ```
///
/// # Errors
/// Too few bytes: x86_64 needs 168, arm64 272.
///
/// # Signal safety
/// Safe.
pub fn from_thread_state(
    architecture: Architecture,
    bytes: &[u8],
    pac: PacMask,
) -> Result<Registers, RegistersError> {
    need(bytes, thread_state_bytes(architecture))?;
    Ok(match architecture {
        Architecture::X86_64 => Registers::X86_64(x86_64_registers!(bytes, ThreadStateX86_64, [], rflags)),
        Architecture::Arm64 => {
            let mut x = [0; 31];
            x.iter_mut().enumerate().for_each(|(n, x)| *x = word(bytes, n.wrapping_mul(8)));
            let [.., fp, _lr] = &mut x;
            *fp = pac.strip(*fp);
            Registers::Arm64(RegistersArm64 {
                x,
                sp: pac.strip(word(bytes, offset_of!(ThreadStateArm64, sp))),
                pc: word(bytes, offset_of!(ThreadStateArm64, pc)),
                // The upper half of the word is the flags.
                pstate: word(bytes, offset_of!(ThreadStateArm64, cpsr)) & u64::from(u32::MAX),
            })
        }
    })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// A thread state whose every word holds its own byte offset.
    fn numbered(words: usize) -> Vec<u8> {
        (0..words as u64).flat_map(|n| (n * 8).to_le_bytes()).collect()
    }

    #[test]
    fn x86_64_words_come_from_the_offsets_of_the_systems_header() {
        let state = numbered(21);
        let Ok(Registers::X86_64(r)) = from_thread_state(Architecture::X86_64, &state, PacMask::NONE) else {
            panic!()
        };
        assert_eq!((r.rax, r.rbx, r.rcx, r.rdx, r.rdi, r.rsi, r.rbp, r.rsp), (0, 8, 16, 24, 32, 40, 48, 56));
        assert_eq!((r.r8, r.r15, r.rip, r.rflags), (64, 120, 128, 136));
    }

    #[test]
    fn arm64_words_come_from_the_offsets_of_the_systems_header() {
        let mut state = numbered(34);
        state[268..272].copy_from_slice(&[0xff; 4]);
        let Ok(Registers::Arm64(r)) = from_thread_state(Architecture::Arm64, &state, PacMask::NONE) else {
            panic!()
        };
        assert_eq!((r.x[0], r.x[28], r.fp(), r.lr(), r.sp, r.pc), (0, 224, 232, 240, 248, 256));
        assert_eq!(r.pstate, 264, "the flags are not part of it");
    }

    #[test]
    fn the_stack_and_frame_pointers_of_arm64e_lose_their_signatures_and_code_addresses_keep_them() {
        for (bits, address) in [(36, 0x1_6fd0_0000), (39, 0x7f_0000_0010), (47, 0x7000_1234_5670)] {
            let signed = 0x2a51_0000_0000_0000 | address;
            let state: Vec<u8> = (0..34).flat_map(|_| u64::to_le_bytes(signed)).collect();
            let mask = PacMask::from_address_bits(bits);
            let Ok(Registers::Arm64(r)) = from_thread_state(Architecture::Arm64, &state, mask) else {
                panic!()
            };
            assert_eq!((r.sp, r.fp()), (address, address), "{bits} bits");
            assert_eq!((r.pc, r.lr(), r.x[28]), (signed, signed, signed));
            assert_eq!(mask.strip(r.pc), address);
        }
    }

    #[test]
    fn one_byte_too_few_is_an_error_that_says_so() {
        for (architecture, needed) in [(Architecture::X86_64, 168), (Architecture::Arm64, 272)] {
            assert_eq!(thread_state_bytes(architecture), needed);
            let bytes = numbered(34);
            assert!(from_thread_state(architecture, &bytes[..needed], PacMask::NONE).is_ok());
            assert_eq!(
                from_thread_state(architecture, &bytes[..needed - 1], PacMask::NONE),
                Err(RegistersError::TooShort { needed, given: needed - 1 })
            );
        }
    }
}
