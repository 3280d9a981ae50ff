//! Compact unwind information: the section `__unwind_info` of Mach-O images, which says in 32 bits how to leave a
//! function.
//!
//! ```text
//! pc ──▶ index of pages ──binary search──▶ page ──binary search──▶ encoding ──▶ Rule
//!                                                                     └──▶ the place of an FDE in __eh_frame
//! ```
//!
//! An encoding describes a frame that is complete: it is right at every call, and wrong in a prologue or an epilogue,
//! where a thread can be stopped all the same. [`prologue`](super::prologue) knows those.
//!
//! Sources: `mach-o/compact_unwind_encoding.h`; LLVM's `compact-unwind` documentation of the section's layout. Nothing
//! that is read is trusted: each part must lie inside the section, and each search is bounded by its part's size.

mod arm64;
mod encoding;
mod error;
mod index;
mod page;
mod section;
mod x86_64;

pub use encoding::{Encoding, Unwinding};
pub use error::CompactError;

use crate::images::Range;
use crate::memory::Memory;
use section::Section;

/// Where an image's compact unwind information lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactTable {
    /// The section `__unwind_info`.
    pub section: Range,
    /// The start of the image, which functions are counted from.
    pub image: u64,
    /// The section `__text`; empty if it is not known. Linkers that make one entry of neighbours, LLVM's and zig's among
    /// them, may mark the end of the table before the last of these: the last entry then goes on to the end of the section.
    pub text: Range,
}

/// What the table says of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// The code that the encoding holds for. Linkers make one entry of neighbours that have the same encoding: the first
    /// of these functions begins at `start`.
    pub code: Range,
    /// How to leave it.
    pub encoding: Encoding,
}

impl CompactTable {
    /// The entry for the address `pc`, which must lie inside the instruction that was executing:
    /// [`FrameAddress::lookup`](crate::rule::FrameAddress::lookup).
    ///
    /// # Errors
    /// No function of the table contains `pc` ([`CompactError::NotCovered`]), or what is wrong with the table.
    ///
    /// # Signal safety
    /// Safe if `memory` is: about 300 bytes of stack.
    ///
    /// ```
    /// use freezeframe_unwind::images::Range;
    /// use freezeframe_unwind::memory::SliceMemory;
    /// use freezeframe_unwind::tables::compact::{CompactTable, Encoding};
    ///
    /// // Two pages in the index, the second one only marks the end; one function from 0x1000 to 0x1040.
    /// let words: [u32; 16] =
    ///     [1, 28, 0, 28, 0, 28, 2, 0x1000, 52, 0, 0x1040, 0, 0, 2, 1 << 16 | 8, 0x1000];
    /// let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    /// bytes.extend(0x0400_0000u32.to_le_bytes());
    /// let section = Range { start: 0x8000, end: 0x8000 + bytes.len() as u64 };
    /// let table = CompactTable { section, image: 0x5000_0000, text: Range::default() };
    /// let function = table.find(&mut SliceMemory::new(0x8000, &bytes), 0x5000_1010)?;
    /// assert_eq!(function.encoding, Encoding(0x0400_0000));
    /// assert_eq!(function.code, Range { start: 0x5000_1000, end: 0x5000_1040 });
    /// # Ok::<(), freezeframe_unwind::tables::compact::CompactError>(())
    /// ```
    pub fn find<M: Memory>(&self, memory: &mut M, pc: u64) -> Result<Function, CompactError> {
        let not_covered = CompactError::NotCovered(pc);
        let wanted = pc.checked_sub(self.image).and_then(|offset| u32::try_from(offset).ok());
        let wanted = wanted.ok_or(not_covered)?;
        let text_end = self.text.end.saturating_sub(self.image).try_into().unwrap_or(u32::MAX);
        let mut section = Section::new(memory, self.section);
        let found = index::find(&mut section, wanted, text_end)
            .and_then(|page| page::find(&mut section, &page, wanted));
        let (start, end, encoding) = found.map_err(|error| match error {
            CompactError::NotCovered(_) => not_covered,
            CompactError::Unsorted(_) => CompactError::Unsorted(pc),
            error => error,
        })?;
        let address = |offset: u32| self.image.saturating_add(offset.into());
        Ok(Function { code: Range { start: address(start), end: address(end) }, encoding })
    }
}

#[cfg(test)]
mod tests;
