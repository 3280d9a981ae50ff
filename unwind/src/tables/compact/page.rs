//! The second level: the function in a page, and its encoding.
//!
//! ```text
//! regular:    2 │ entries: offset, count │ … { function, encoding } × count
//! compressed: 3 │ entries: offset, count │ encodings: offset, count │ … { index of encoding: 8, function: 24 } × count
//! ```
//!
//! Offsets are from the page's start. A compressed entry's function is counted from the page's first; its index goes on
//! from the list that all pages share into the page's own.

use super::index::Page;
use super::section::Section;
use super::{CompactError, Encoding};
use crate::memory::Memory;

const REGULAR: u32 = 2;
const COMPRESSED: u32 = 3;
const FUNCTION_BITS: u32 = 24;
const FUNCTION: u32 = (1 << FUNCTION_BITS) - 1;

/// The first and the last address that the entry for `wanted` holds for, the last exclusive, and its encoding.
pub(super) fn find<M: Memory>(
    section: &mut Section<'_, M>,
    page: &Page,
    wanted: u32,
) -> Result<(u32, u32, Encoding), CompactError> {
    match section.words(page.offset)? {
        [REGULAR] => regular(section, page, wanted),
        [COMPRESSED] => compressed(section, page, wanted),
        [kind] => Err(CompactError::PageKind(kind)),
    }
}

fn regular<M: Memory>(
    section: &mut Section<'_, M>,
    page: &Page,
    wanted: u32,
) -> Result<(u32, u32, Encoding), CompactError> {
    let [entries, count] = section.halves(page.offset.saturating_add(4))?;
    let entries = section.list(page.offset.saturating_add(entries.into()), count.into(), 8)?;
    let found = section.search(&entries, wanted, |function| function)?;
    let found = found.ok_or(CompactError::NotCovered(wanted.into()))?;
    let [start, encoding] = section.entry(&entries, found)?;
    let end = match section.entry(&entries, found.saturating_add(1)) {
        Ok([next]) => next.min(page.end),
        Err(_) => page.end,
    };
    if start < page.start || wanted < start || end <= wanted {
        return Err(CompactError::Unsorted(wanted.into()));
    }
    Ok((start, end, Encoding(encoding)))
}

fn compressed<M: Memory>(
    section: &mut Section<'_, M>,
    page: &Page,
    wanted: u32,
) -> Result<(u32, u32, Encoding), CompactError> {
    let [entries, count, encodings, encoding_count] = section.halves(page.offset.saturating_add(4))?;
    let entries = section.list(page.offset.saturating_add(entries.into()), count.into(), 4)?;
    let encodings = section.list(page.offset.saturating_add(encodings.into()), encoding_count.into(), 4)?;
    let function = |entry: u32| page.start.saturating_add(entry & FUNCTION);
    let found = section.search(&entries, wanted, function)?;
    let found = found.ok_or(CompactError::NotCovered(wanted.into()))?;
    let [entry] = section.entry(&entries, found)?;
    let end = match section.entry(&entries, found.saturating_add(1)) {
        Ok([next]) => function(next).min(page.end),
        Err(_) => page.end,
    };
    if wanted < function(entry) || end <= wanted {
        return Err(CompactError::Unsorted(wanted.into()));
    }
    let index = entry >> FUNCTION_BITS;
    let encoding = match index.checked_sub(page.encodings.count) {
        None => section.entry(&page.encodings, index),
        Some(own) if own < encodings.count => section.entry(&encodings, own),
        Some(_) => Err(CompactError::EncodingIndex(index)),
    };
    let [encoding] = encoding?;
    Ok((function(entry), end, Encoding(encoding)))
}
