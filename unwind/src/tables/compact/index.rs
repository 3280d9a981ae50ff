//! The first level: which page an address is in.
//!
//! ```text
//! version 1 │ encodings: offset, count │ personalities: offset, count │ index: offset, count
//! index:    { first function, offset of page, offset of LSDAs } × count, the last of which marks the end
//! ```

use super::CompactError;
use super::section::{List, Section};
use crate::memory::Memory;

const VERSION: u32 = 1;
const ENTRY: u32 = 12;

/// A page, and the functions it is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) offset: u64,
    /// The first function of the page.
    pub(super) start: u32,
    /// The first function of the next page.
    pub(super) end: u32,
    /// The encodings that all pages share.
    pub(super) encodings: List,
}

/// The page for the address at `wanted` from the image's start. The last page goes on to `text_end`, if the mark of the
/// table's end comes before.
pub(super) fn find<M: Memory>(
    section: &mut Section<'_, M>,
    wanted: u32,
    text_end: u32,
) -> Result<Page, CompactError> {
    let [version, encodings, encoding_count, _, _, index, count] = section.words(0)?;
    if version != VERSION {
        return Err(CompactError::Version(version));
    }
    let encodings = section.list(encodings.into(), encoding_count, 4)?;
    let index = section.list(index.into(), count, ENTRY)?;
    let not_covered = CompactError::NotCovered(wanted.into());
    let found = section.search(&index, wanted, |function| function)?.ok_or(not_covered)?;
    let mark = count.saturating_sub(1);
    let found = if found < mark || text_end <= wanted { found } else { mark.saturating_sub(1) };
    let next = found.saturating_add(1);
    if next > mark {
        return Err(not_covered);
    }
    let [start, page] = section.entry(&index, found)?;
    let [end] = section.entry(&index, next)?;
    let end = if next == mark { end.max(text_end) } else { end };
    if wanted < start || end <= wanted {
        return Err(CompactError::Unsorted(wanted.into()));
    }
    if page == 0 {
        return Err(not_covered);
    }
    Ok(Page { offset: page.into(), start, end, encodings })
}
