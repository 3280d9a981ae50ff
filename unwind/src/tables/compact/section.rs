//! The section as numbers at offsets.

use super::CompactError;
use crate::images::Range;
use crate::memory::{Cursor, Memory, Window};

/// The bytes of a section, and a few of them at hand where memory cannot lend them.
pub(super) struct Section<'a, M> {
    memory: &'a mut M,
    window: Window<64>,
    range: Range,
}

/// A list in the section whose every entry lies inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct List {
    offset: u64,
    pub(super) count: u32,
    entry: u32,
}

impl List {
    /// The offset of an entry; the list has been found to lie inside the section, so nothing overflows.
    fn offset_of(&self, index: u32) -> u64 {
        self.offset.wrapping_add(u64::from(index).wrapping_mul(self.entry.into()))
    }
}

impl<'a, M: Memory> Section<'a, M> {
    pub(super) fn new(memory: &'a mut M, range: Range) -> Self {
        Self { memory, window: Window::new(), range }
    }

    /// The bytes from an offset to the section's end, the first `wanted` of which are needed.
    fn at(&mut self, offset: u64, wanted: usize) -> Result<Cursor<'_>, CompactError> {
        let outside = CompactError::Outside(offset);
        let address = self.range.start.checked_add(offset).ok_or(outside)?;
        let end = address.checked_add(wanted as u64).ok_or(outside)?;
        if end > self.range.end {
            return Err(outside);
        }
        let bytes = self.window.at(self.memory, address, wanted);
        if bytes.len() < wanted {
            return Err(CompactError::Unreadable(address));
        }
        Ok(Cursor::new(address, bytes, self.range.end))
    }

    /// The `N` words at an offset.
    pub(super) fn words<const N: usize>(&mut self, offset: u64) -> Result<[u32; N], CompactError> {
        let mut cursor = self.at(offset, N.saturating_mul(4))?;
        let mut words = [0; N];
        for word in &mut words {
            *word = cursor.u32().map_err(|_| CompactError::Outside(offset))?;
        }
        Ok(words)
    }

    /// The `N` half words at an offset.
    pub(super) fn halves<const N: usize>(&mut self, offset: u64) -> Result<[u16; N], CompactError> {
        let mut cursor = self.at(offset, N.saturating_mul(2))?;
        let mut halves = [0; N];
        for half in &mut halves {
            *half = cursor.u16().map_err(|_| CompactError::Outside(offset))?;
        }
        Ok(halves)
    }

    /// `count` entries of `entry` bytes at an offset, all of them inside.
    pub(super) fn list(&self, offset: u64, count: u32, entry: u32) -> Result<List, CompactError> {
        let size = u64::from(count).saturating_mul(entry.into());
        let left = self.range.end.saturating_sub(self.range.start).checked_sub(offset);
        match left {
            Some(left) if size <= left => Ok(List { offset, count, entry }),
            _ => Err(CompactError::Outside(offset)),
        }
    }

    /// The first `N` words of an entry.
    pub(super) fn entry<const N: usize>(
        &mut self,
        list: &List,
        index: u32,
    ) -> Result<[u32; N], CompactError> {
        if index >= list.count {
            return Err(CompactError::Outside(list.offset_of(list.count)));
        }
        self.words(list.offset_of(index))
    }

    /// The last entry of which `key` is at most `wanted`; none if the first is above it. `key` takes an entry's first
    /// word. An order other than ascending gives some entry, after as many steps.
    pub(super) fn search(
        &mut self,
        list: &List,
        wanted: u32,
        key: impl Fn(u32) -> u32,
    ) -> Result<Option<u32>, CompactError> {
        let (mut first, mut left) = (0u32, list.count);
        while left > 0 {
            let half = left / 2;
            let middle = first.saturating_add(half);
            let [word] = self.entry(list, middle)?;
            if key(word) <= wanted {
                first = middle.saturating_add(1);
                left = left.saturating_sub(half).saturating_sub(1);
            } else {
                left = half;
            }
        }
        Ok(first.checked_sub(1))
    }
}
