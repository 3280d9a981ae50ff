//! The calling thread's own registers.

use crate::Registers;

/// The registers of the calling thread, as they are in the function that calls.
///
/// # Signal safety
/// Safe.
#[inline(always)]
pub fn capture() -> Registers {
    let mut words = [0; freezeframe_asm::REGISTER_WORDS];
    freezeframe_asm::capture_registers(&mut words);
    #[cfg(target_arch = "x86_64")]
    {
        Registers::X86_64(crate::RegistersX86_64::from_words(words))
    }
    #[cfg(target_arch = "aarch64")]
    {
        Registers::Arm64(crate::RegistersArm64::from_words(words))
    }
}

#[cfg(test)]
mod tests {
    #[inline(never)]
    fn captured_here() -> (crate::Registers, usize) {
        let local = 0u8;
        (super::capture(), core::hint::black_box(&raw const local) as usize)
    }

    #[test]
    fn the_registers_are_those_of_the_function_that_asks() {
        let (registers, local) = captured_here();
        let function = captured_here as *const () as u64;
        let within = registers.pc().wrapping_sub(function);
        assert!(
            within > 0 && within < 512,
            "pc {:#x} is not in the function at {function:#x}",
            registers.pc()
        );
        let (sp, fp, local) = (registers.sp(), registers.fp(), local as u64);
        assert!(sp <= local && local < fp, "the local at {local:#x} lies between sp {sp:#x} and fp {fp:#x}");
        assert!(fp - sp < 65_536);
        assert_eq!(sp % 16, 0, "both ABIs align the stack pointer to 16 at a call");
    }
}
