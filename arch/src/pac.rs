//! Pointer authentication codes (PAC): arm64 hides a signature in the unused top bits of return addresses.

/// Which bits of a code pointer hold a pointer authentication code. Known only at run time: it follows from the size
/// of the address space that the kernel was configured with.
///
/// ```
/// use freezeframe_arch::PacMask;
/// let mask = PacMask::from_address_bits(47);
/// assert_eq!(mask.strip(0x0123_8001_0000_4000), 0x0000_0001_0000_4000);
/// assert_eq!(PacMask::NONE.strip(0x0123_8001_0000_4000), 0x0123_8001_0000_4000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacMask(u64);

impl PacMask {
    /// No bits: x86_64, and arm64 without pointer authentication.
    pub const NONE: Self = Self(0);

    /// Bit 55 tells user (0) from kernel (1) addresses and is never part of the code (Arm ARM, D8.10).
    const SELECT: u64 = 1 << 55;

    /// A mask as the kernel reports it: `NT_ARM_PAC_MASK`'s `insn_mask` on Linux.
    pub const fn new(mask: u64) -> Self {
        Self(mask & !Self::SELECT)
    }

    /// The mask for an address space of `bits` bits: everything above them but bit 55. iOS has 36 to 39 bits, macOS 47,
    /// Linux mostly 48.
    pub const fn from_address_bits(bits: u32) -> Self {
        match u64::MAX.checked_shl(bits) {
            Some(mask) => Self::new(mask),
            None => Self::NONE,
        }
    }

    /// The bits of the mask.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// `address` without its code, as the XPACI instruction does it: the bits become copies of bit 55.
    ///
    /// # Signal safety
    /// Safe.
    pub const fn strip(self, address: u64) -> u64 {
        if address & Self::SELECT == 0 { address & !self.0 } else { address | self.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripping_follows_the_mask_given_at_run_time() {
        let ios = PacMask::from_address_bits(36);
        let macos = PacMask::from_address_bits(47);
        let linux = PacMask::new(0x007f_0000_0000_0000);
        let signed = 0xbe5f_7fff_1234_5678;
        assert_eq!(ios.strip(signed), 0x0000_000f_1234_5678);
        assert_eq!(macos.strip(signed), 0x0000_7fff_1234_5678);
        assert_eq!(
            linux.strip(signed),
            0xbe00_7fff_1234_5678,
            "Linux signs code pointers in bits 48 to 54 only"
        );
        assert_eq!(PacMask::from_address_bits(64), PacMask::NONE);
    }

    #[test]
    fn a_kernel_address_keeps_its_ones() {
        let linux = PacMask::from_address_bits(48);
        assert_eq!(linux.strip(0xff91_8000_0001_0000), 0xffff_8000_0001_0000);
    }

    #[test]
    fn an_unsigned_address_is_unchanged() {
        for bits in [36, 39, 47, 48, 52] {
            assert_eq!(PacMask::from_address_bits(bits).strip(0x0000_000f_ffff_fff0), 0x0000_000f_ffff_fff0);
        }
    }
}
