//! Reading register files that come as bytes.

/// Why bytes could not be read as a register file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistersError {
    /// Fewer bytes than the layout needs.
    TooShort {
        /// How many bytes the layout needs.
        needed: usize,
        /// How many were given.
        given: usize,
    },
}

impl core::fmt::Display for RegistersError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self::TooShort { needed, given } = self;
        write!(f, "registers need {needed} bytes, {given} were given")
    }
}

impl core::error::Error for RegistersError {}

/// The little-endian word at `offset`; zero outside, which the callers' length checks exclude.
pub(crate) fn word(bytes: &[u8], offset: usize) -> u64 {
    bytes.get(offset..).and_then(|tail| tail.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
}

pub(crate) fn need(bytes: &[u8], needed: usize) -> Result<(), RegistersError> {
    if bytes.len() < needed { Err(RegistersError::TooShort { needed, given: bytes.len() }) } else { Ok(()) }
}

/// Reads each register of x86_64 from `bytes` at the offset of the system's field of that name in `$layout`, where the
/// fields stand below `$path`; the last argument is the name of the flags' field.
macro_rules! x86_64_registers {
    ($bytes:expr, $layout:ty, [$($path:tt)*], $flags:ident) => {
        x86_64_registers!(@ $bytes, $layout, [$($path)*],
            rax = rax, rdx = rdx, rcx = rcx, rbx = rbx, rsi = rsi, rdi = rdi, rbp = rbp, rsp = rsp, r8 = r8,
            r9 = r9, r10 = r10, r11 = r11, r12 = r12, r13 = r13, r14 = r14, r15 = r15, rip = rip, rflags = $flags)
    };
    (@ $bytes:expr, $layout:ty, $path:tt, $($register:ident = $field:ident),*) => {
        $crate::RegistersX86_64 { $(
            $register: $crate::bytes::word($bytes, x86_64_registers!(@offset $layout, $path, $field)),
        )* }
    };
    (@offset $layout:ty, [$($path:tt)*], $field:ident) => { core::mem::offset_of!($layout, $($path)* $field) };
}
pub(crate) use x86_64_registers;
