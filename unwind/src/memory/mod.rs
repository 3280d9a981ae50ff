//! Reading memory that may not be there.
//!
//! Everything that walks reads through [`Memory`], so that the same code walks this process by the kernel, a copy of a
//! stack, a core file, or a fuzzer's bytes. A read never faults: it returns how far it came.

mod cursor;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(target_vendor = "apple")]
mod mach;
mod pages;
mod slice;
mod stack_copy;
mod window;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use linux::PipeMemory;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use linux::ProcessMemory;
#[cfg(target_vendor = "apple")]
pub use mach::ProcessMemory;
pub use pages::{Paged, Pages};
pub use slice::SliceMemory;
pub use stack_copy::StackCopy;

pub(crate) use cursor::{Cursor, CutShort};
pub(crate) use window::Window;

/// A source of memory by address.
pub trait Memory {
    /// Copies from `address` on into `out` and returns how many bytes could be read before the first that could not.
    ///
    /// # Signal safety
    /// Implementations in this crate are safe.
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize;

    /// The little-endian word at `address`, if all of it can be read.
    fn read_u64(&mut self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        (self.read(address, &mut word) == word.len()).then(|| u64::from_le_bytes(word))
    }

    /// All bytes from `address` on, where this memory is bytes that can be lent without a copy. None if it is not, or
    /// if nothing is there: then [`read`](Self::read) says which. Readers of tables ask for this first.
    #[inline]
    fn bytes(&self, address: u64) -> Option<&[u8]> {
        let _ = address;
        None
    }

    /// The two little-endian words at `address`, a frame record.
    ///
    /// # Errors
    /// The address of the first of them that cannot be read.
    #[inline]
    fn read_record(&mut self, address: u64) -> Result<[u64; 2], u64> {
        let mut record = [0; 16];
        let read = self.read(address, &mut record);
        if read == record.len() { Ok(words(&record)) } else { Err(unreadable_word(address, read)) }
    }
}

fn words(record: &[u8; 16]) -> [u64; 2] {
    let both = u128::from_le_bytes(*record);
    [both as u64, (both >> 64) as u64]
}

/// The word of the record at `address` that lacks bytes if the first `read` bytes of the record are there.
const fn unreadable_word(address: u64, read: usize) -> u64 {
    if read < 8 { address } else { address.wrapping_add(8) }
}

impl<M: Memory + ?Sized> Memory for &mut M {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        (**self).read(address, out)
    }

    fn read_u64(&mut self, address: u64) -> Option<u64> {
        (**self).read_u64(address)
    }

    #[inline]
    fn bytes(&self, address: u64) -> Option<&[u8]> {
        (**self).bytes(address)
    }

    fn read_record(&mut self, address: u64) -> Result<[u64; 2], u64> {
        (**self).read_record(address)
    }
}
