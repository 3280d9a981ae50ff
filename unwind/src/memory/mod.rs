//! Reading memory that may not be there.
//!
//! Everything that walks reads through [`Memory`], so that the same code walks this process by the kernel, a copy of a
//! stack, a core file, or a fuzzer's bytes. A read never faults: it returns how far it came.

mod cursor;
#[cfg(target_os = "linux")]
mod linux;
mod pages;
mod slice;
mod stack_copy;
mod window;

#[cfg(target_os = "linux")]
pub use linux::ProcessMemory;
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
}
