//! Reading memory that may not be there.
//!
//! Everything that walks reads through [`Memory`], so that the same code walks this process by the kernel, a copy of a
//! stack, a core file, or a fuzzer's bytes. A read never faults: it returns how far it came.

#[cfg(target_os = "linux")]
mod linux;
mod slice;
mod stack_copy;

#[cfg(target_os = "linux")]
pub use linux::ProcessMemory;
pub use slice::SliceMemory;
pub use stack_copy::StackCopy;

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
}

impl<M: Memory + ?Sized> Memory for &mut M {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        (**self).read(address, out)
    }

    fn read_u64(&mut self, address: u64) -> Option<u64> {
        (**self).read_u64(address)
    }
}
