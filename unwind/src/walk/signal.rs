//! The frames that signal handlers return to, told by their instructions: musl's and ours have no unwind tables, and
//! some vDSOs' have none that can be found.

use crate::memory::Memory;
use freezeframe_arch::linux::{UCONTEXT_BYTES_MAX, from_ucontext, ucontext_bytes};
use freezeframe_arch::{Architecture, Registers};

/// `mov $15, %rax; syscall`: rt_sigreturn.
const X86_64: [u8; 9] = [0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05];
/// `mov $15, %eax; syscall`.
const X86_64_SHORT: [u8; 7] = [0xb8, 15, 0, 0, 0, 0x0f, 0x05];
/// `mov x8, #139; svc #0`.
const ARM64: [u8; 8] = [0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4];

/// arm64's frame begins with the 128 bytes of a `siginfo_t`; on x86_64 the handler's return has left the stack pointer
/// at the context.
const fn context_offset(architecture: Architecture) -> u64 {
    match architecture {
        Architecture::X86_64 => 0,
        Architecture::Arm64 => 128,
    }
}

/// Whether the code at `pc` returns from a signal handler.
pub(super) fn is_signal_return<M: Memory>(memory: &mut M, architecture: Architecture, pc: u64) -> bool {
    let mut code = [0; X86_64.len()];
    let read = memory.read(pc, &mut code);
    let code = code.get(..read).unwrap_or(&[]);
    match architecture {
        Architecture::X86_64 => code.starts_with(&X86_64) || code.starts_with(&X86_64_SHORT),
        Architecture::Arm64 => code.starts_with(&ARM64),
    }
}

/// The registers that a signal interrupted, in the frame of its return whose stack pointer is `sp`.
pub(super) fn interrupted<M: Memory>(
    memory: &mut M,
    architecture: Architecture,
    sp: u64,
) -> Option<Registers> {
    let mut bytes = [0; UCONTEXT_BYTES_MAX];
    let context = bytes.get_mut(..ucontext_bytes(architecture))?;
    let address = sp.checked_add(context_offset(architecture))?;
    if memory.read(address, context) != context.len() {
        return None;
    }
    from_ucontext(architecture, context).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::SliceMemory;

    #[test]
    fn each_architectures_return_is_known_by_its_bytes() {
        let at =
            |architecture, bytes: &[u8]| is_signal_return(&mut SliceMemory::new(8, bytes), architecture, 8);
        assert!(at(Architecture::X86_64, &X86_64) && at(Architecture::X86_64, &X86_64_SHORT));
        assert!(at(Architecture::Arm64, &ARM64) && !at(Architecture::X86_64, &ARM64));
        assert!(!at(Architecture::X86_64, &X86_64[..8]) && !at(Architecture::Arm64, &[]));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn our_own_return_is_known() {
        let pc = freezeframe_asm::signal_return() as u64;
        assert!(is_signal_return(&mut crate::memory::ProcessMemory::new(), Architecture::NATIVE, pc));
    }
}
