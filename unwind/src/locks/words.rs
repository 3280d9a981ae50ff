//! The words around one that a thread waits at, as one copy.

use crate::memory::Memory;

/// How many bytes before the word belong to a lock, at most, and how many from it on.
const BEFORE: usize = 12;
const AFTER: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Words {
    start: u64,
    bytes: [u8; BEFORE + AFTER],
    length: usize,
}

impl Words {
    /// A copy of what can be read around `address`. None if not even that word can.
    pub(super) fn around<M: Memory>(memory: &mut M, address: u64) -> Option<Self> {
        // What comes before may be another page, which is not there.
        for before in [BEFORE as u64, 8, 4, 0] {
            let start = address.saturating_sub(before);
            let mut words = Self { start, bytes: [0; BEFORE + AFTER], length: 0 };
            words.length = memory.read(start, &mut words.bytes);
            if words.u32(address).is_some() {
                return Some(words);
            }
        }
        None
    }

    pub(super) fn u32(&self, address: u64) -> Option<u32> {
        self.array(address).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&self, address: u64) -> Option<u64> {
        self.array(address).map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let offset = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(..self.length)?;
        bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
    }
}
