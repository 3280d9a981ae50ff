//! A window of a stack, copied in one go.

use super::{Memory, SliceMemory};

/// A window of memory in a caller's buffer, over another [`Memory`].
///
/// Reads inside the window cost nothing; a read outside moves the window there, as often as
/// [`continue_in`](Self::continue_in) allows. So one copy serves a whole stack in the common case, and a stack deeper
/// than the buffer is continued in further windows while its thread is still held.
///
/// ```text
///        sp                                   stack's top
///  ───────┬──────────────────────┬──────────────┬───────▶ addresses
///         │ window 1 (buffer)    │ window 2     │
/// ```
#[derive(Debug)]
pub struct StackCopy<'a> {
    base: u64,
    filled: usize,
    buffer: &'a mut [u8],
    copies: u32,
}

impl<'a> StackCopy<'a> {
    /// An empty window over `buffer`.
    pub const fn new(buffer: &'a mut [u8]) -> Self {
        Self { base: 0, filled: 0, buffer, copies: 0 }
    }

    /// Copies from `address` on, up to `limit` (exclusive) or the buffer's size, and returns whether the window holds
    /// all that there is: it ends at `limit`, or before memory that cannot be read.
    ///
    /// # Signal safety
    /// Safe if `memory` is.
    pub fn fill<M: Memory>(&mut self, memory: &mut M, address: u64, limit: u64) -> bool {
        let wanted = limit.saturating_sub(address);
        let size = usize::try_from(wanted).unwrap_or(usize::MAX).min(self.buffer.len());
        let window = self.buffer.get_mut(..size).unwrap_or(&mut []);
        self.base = address;
        self.filled = memory.read(address, window);
        self.copies = self.copies.saturating_add(1);
        self.filled < size || size as u64 == wanted
    }

    /// How many copies were made through the kernel so far.
    pub const fn copies(&self) -> u32 {
        self.copies
    }

    /// Whether nothing was there to be copied.
    pub const fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// The window's bytes as memory of its own: what is outside cannot be read.
    pub fn window(&self) -> SliceMemory<'_> {
        SliceMemory::new(self.base, self.buffer.get(..self.filled).unwrap_or(&[]))
    }

    /// The window over `memory`: a read outside it moves it there first.
    pub fn continue_in<'b, M: Memory>(&'b mut self, memory: &'b mut M) -> Continued<'a, 'b, M> {
        Continued { copy: self, memory }
    }
}

/// See [`StackCopy::continue_in`].
#[derive(Debug)]
pub struct Continued<'a, 'b, M> {
    copy: &'b mut StackCopy<'a>,
    memory: &'b mut M,
}

impl<M: Memory> Memory for Continued<'_, '_, M> {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        let read = self.copy.window().read(address, out);
        if read == out.len() {
            return read;
        }
        self.copy.fill(self.memory, address, u64::MAX);
        self.copy.window().read(address, out)
    }

    #[inline]
    fn read_u64(&mut self, address: u64) -> Option<u64> {
        match self.copy.window().read_u64(address) {
            Some(word) => Some(word),
            None => {
                self.copy.fill(self.memory, address, u64::MAX);
                self.copy.window().read_u64(address)
            }
        }
    }

    #[inline]
    fn read_record(&mut self, address: u64) -> Result<[u64; 2], u64> {
        match self.copy.window().read_record(address) {
            Ok(record) => Ok(record),
            Err(_) => {
                self.copy.fill(self.memory, address, u64::MAX);
                self.copy.window().read_record(address)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered() -> [u8; 256] {
        core::array::from_fn(|n| n as u8)
    }

    #[test]
    fn a_window_is_complete_when_it_reaches_the_limit_or_a_hole() {
        let bytes = numbered();
        let mut memory = SliceMemory::new(1000, &bytes);
        let mut buffer = [0; 64];
        let mut copy = StackCopy::new(&mut buffer);
        assert!(copy.fill(&mut memory, 1000, 1064), "ends at the limit");
        assert!(!copy.fill(&mut memory, 1000, 1065), "one byte more than the buffer holds");
        assert!(copy.fill(&mut memory, 1000 + 256 - 10, 5000), "ends where memory ends");
        assert_eq!(copy.window().read(1255, &mut [0]), 1);
        assert_eq!(copy.window().read(1256, &mut [0]), 0);
        assert!(copy.fill(&mut memory, 1000, 1000), "nothing was asked for");
        assert!(copy.fill(&mut memory, 1000, 900), "a limit below the address asks for nothing");
    }

    #[test]
    fn reads_beyond_the_window_move_it_and_count_the_copies() {
        let bytes = numbered();
        let mut memory = SliceMemory::new(0, &bytes);
        let mut buffer = [0; 64];
        let mut copy = StackCopy::new(&mut buffer);
        copy.fill(&mut memory, 0, u64::MAX);
        let mut all = copy.continue_in(&mut memory);
        for address in (0..256).step_by(8) {
            let n = address as u8;
            let expected = u64::from_le_bytes([n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7]);
            assert_eq!(all.read_u64(address), Some(expected));
        }
        assert_eq!(all.read_u64(250), None);
        assert_eq!(copy.copies(), 5, "four windows of 64 bytes, and one more try at the end");
    }
}
