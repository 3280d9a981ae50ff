//! Memory that counts what is asked of it.

use freezeframe_unwind::memory::{Memory, SliceMemory};

/// Pieces of memory, which are lent or copied.
#[derive(Clone, Debug)]
pub(super) struct Space<'a> {
    pieces: [SliceMemory<'a>; 2],
    lends: bool,
    /// How often it was read, but for what was lent.
    pub(super) reads: u64,
    /// The lowest address that was asked for, and the highest.
    pub(super) asked: Option<(u64, u64)>,
}

impl<'a> Space<'a> {
    pub(super) fn new(pieces: [(u64, &'a [u8]); 2], lends: bool) -> Self {
        let pieces = pieces.map(|(base, bytes)| SliceMemory::new(base, bytes));
        Self { pieces, lends, reads: 0, asked: None }
    }
}

impl Memory for Space<'_> {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        self.reads += 1;
        let (low, high) = self.asked.unwrap_or((address, address));
        self.asked = Some((low.min(address), high.max(address)));
        self.pieces.iter_mut().map(|piece| piece.read(address, out)).max().unwrap_or(0)
    }

    fn bytes(&self, address: u64) -> Option<&[u8]> {
        self.pieces.iter().find_map(|piece| piece.bytes(address)).filter(|_| self.lends)
    }
}
