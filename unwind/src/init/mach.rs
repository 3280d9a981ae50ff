//! dyld's callbacks, and the size of addresses.

use crate::images;
use crate::suspend::Suspender;
use core::sync::atomic::{AtomicU32, Ordering};
use freezeframe_arch::{Architecture, PacMask};

/// What to set up. There is nothing to choose on Apple systems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {}

/// Why setting up failed. It does not, on Apple systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitError {}

impl core::fmt::Display for InitError {
    fn fmt(&self, _f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {}
    }
}

impl core::error::Error for InitError {}

/// Has dyld tell of its images, and asks how large addresses are, once for the process. A second call returns the same and
/// changes nothing. dyld's callbacks stay for good: the code that calls this must not be unloaded.
///
/// # Errors
/// None on Apple systems.
///
/// # Signal safety
/// Not for signal handlers: dyld's lock is taken. What a handler needs works without this too, see
/// [`ImageTable::refresh`](crate::images::ImageTable::refresh).
pub fn init(config: Config) -> Result<Suspender, InitError> {
    let Config {} = config;
    ADDRESS_BITS.store(address_bits().unwrap_or(DEFAULT_ADDRESS_BITS), Ordering::Relaxed);
    images::follow();
    Ok(Suspender::new())
}

/// macOS has 47 bits and every other system fewer; bits of an address are never taken for a signature.
const DEFAULT_ADDRESS_BITS: u32 = 47;

static ADDRESS_BITS: AtomicU32 = AtomicU32::new(DEFAULT_ADDRESS_BITS);

/// The mask of pointer authentication codes in this process's code pointers.
///
/// x86_64 has none. arm64 signs in the bits above those of the address space, whose number [`init`] asks of the kernel; 47
/// until then.
pub fn pac_mask() -> PacMask {
    match Architecture::NATIVE {
        Architecture::X86_64 => PacMask::NONE,
        Architecture::Arm64 => PacMask::from_address_bits(ADDRESS_BITS.load(Ordering::Relaxed)),
    }
}

/// `machdep.virtual_address_size`.
fn address_bits() -> Option<u32> {
    let mut bits = 0u32;
    let mut size = size_of::<u32>();
    // SAFETY: the name is terminated, and the kernel writes at most `size` bytes to `bits`.
    let result = unsafe {
        let name = c"machdep.virtual_address_size".as_ptr();
        libc::sysctlbyname(name, (&raw mut bits).cast(), &mut size, core::ptr::null_mut(), 0)
    };
    // No such system has fewer than 32 or more than 52.
    (result == 0 && (32..=52).contains(&bits)).then_some(bits)
}
