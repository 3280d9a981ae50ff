//! Bytes that stand for memory.

use super::{Memory, unreadable_word, words};

/// Bytes that stand for the memory from `base` on: a stack that was copied, a section of a file, a test's or a fuzzer's
/// input.
///
/// ```
/// use freezeframe_unwind::memory::{Memory, SliceMemory};
/// let mut memory = SliceMemory::new(0x1000, &[1, 0, 0, 0, 0, 0, 0, 0, 2]);
/// assert_eq!(memory.read_u64(0x1000), Some(1));
/// assert_eq!(memory.read_u64(0x1002), None, "only seven bytes are there");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SliceMemory<'a> {
    base: u64,
    bytes: &'a [u8],
}

impl<'a> SliceMemory<'a> {
    /// `bytes` as the memory that begins at address `base`.
    pub const fn new(base: u64, bytes: &'a [u8]) -> Self {
        Self { base, bytes }
    }

    #[inline]
    fn tail(&self, address: u64) -> Option<&'a [u8]> {
        let offset = address.checked_sub(self.base)?;
        self.bytes.get(usize::try_from(offset).ok()?..)
    }

    #[inline]
    fn record(&self, address: u64) -> Option<&'a [u8; 16]> {
        let start = usize::try_from(address.checked_sub(self.base)?).ok()?;
        self.bytes.get(start..start.checked_add(16)?)?.first_chunk()
    }

    /// Cold: it ends a walk.
    #[cold]
    fn unreadable_word(&self, address: u64) -> u64 {
        unreadable_word(address, self.tail(address).unwrap_or(&[]).len())
    }
}

impl Memory for SliceMemory<'_> {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        let tail = self.tail(address).unwrap_or(&[]);
        out.iter_mut().zip(tail).map(|(to, from)| *to = *from).count()
    }

    #[inline]
    fn read_u64(&mut self, address: u64) -> Option<u64> {
        self.tail(address)?.first_chunk().map(|word| u64::from_le_bytes(*word))
    }

    #[inline]
    fn bytes(&self, address: u64) -> Option<&[u8]> {
        self.tail(address).filter(|tail| !tail.is_empty())
    }

    #[inline]
    fn read_record(&mut self, address: u64) -> Result<[u64; 2], u64> {
        match self.record(address) {
            Some(record) => Ok(words(record)),
            None => Err(self.unreadable_word(address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_give_the_prefix_that_is_there() {
        let mut memory = SliceMemory::new(100, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let mut out = [0; 4];
        assert_eq!((memory.read(106, &mut out), out), (3, [7, 8, 9, 0]));
        assert_eq!(memory.read(99, &mut out), 0);
        assert_eq!(memory.read(109, &mut out), 0);
        assert_eq!(memory.read(u64::MAX, &mut out), 0);
        assert_eq!(memory.read_u64(101), Some(u64::from_le_bytes([2, 3, 4, 5, 6, 7, 8, 9])));
        assert_eq!(memory.read_u64(102), None);
    }

    #[test]
    fn half_a_record_names_the_word_that_is_missing() {
        let bytes: [u8; 20] = core::array::from_fn(|n| n as u8);
        let mut memory = SliceMemory::new(100, &bytes);
        let word = |first: u8| u64::from_le_bytes(core::array::from_fn(|n| first + n as u8));
        assert_eq!(memory.read_record(104), Ok([word(4), word(12)]));
        assert_eq!(memory.read_record(105), Err(113));
        assert_eq!(memory.read_record(112), Err(120));
        assert_eq!(memory.read_record(113), Err(113));
        assert_eq!((memory.read_record(99), memory.read_record(u64::MAX)), (Err(99), Err(u64::MAX)));
    }
}
