//! `.eh_frame_hdr`: an index of the FDEs, sorted by the start of their code.
//!
//! ```text
//! version 1 │ encodings of: eh_frame pointer, count, table │ eh_frame pointer │ count │ { code, FDE } × count
//! ```

use super::TableError;
use super::pointer::{Bases, DATA_SDATA4, OMIT, Pointer, number};
use crate::images::Range;
use crate::memory::{Cursor, Memory, Window};
use core::hint::select_unpredictable;

const VERSION: u8 = 1;
/// The longest header before the table: four bytes and two numbers.
const LONGEST: usize = 4 + 2 * 10;
/// An entry of the table: two 32-bit numbers relative to the section's start.
const ENTRY: u64 = 8;

/// What the index says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The FDE of the last function that starts at or before the address, which may have ended before it.
    Fde(u64),
    /// There is no table that can be searched.
    NoTable {
        /// Where `.eh_frame` starts.
        eh_frame: Option<u64>,
    },
}

/// Looks up `pc`.
#[inline]
pub(super) fn find<M: Memory, const N: usize>(
    memory: &mut M,
    window: &mut Window<N>,
    section: Range,
    bases: Bases,
    pc: u64,
) -> Result<Found, TableError> {
    let bytes = window.at(memory, section.start, LONGEST);
    if bytes.is_empty() {
        return Err(TableError::Unreadable(section.start));
    }
    let mut cursor = Cursor::new(section.start, bytes, section.end);
    let [version, pointer, count, table] = cursor.u32()?.to_le_bytes();
    if version != VERSION {
        return Err(TableError::HeaderVersion(version.into()));
    }
    let eh_frame = match pointer {
        OMIT => None,
        encoding => Some(Pointer::read(&mut cursor, encoding, &bases)?),
    };
    if count == OMIT || table != DATA_SDATA4 {
        let eh_frame = eh_frame.map(|pointer| pointer.resolve(memory)).transpose()?;
        return Ok(Found::NoTable { eh_frame });
    }
    let count = number(&mut cursor, count)?;
    let table = cursor.address();
    if count > section.end.saturating_sub(table) / ENTRY {
        return Err(TableError::HeaderCount(count));
    }
    if let Some(lent) = memory.bytes(table) {
        let (entries, _) = lent.as_chunks();
        let word = |index: u64| entries.get(usize::try_from(index).ok()?).copied().map(u64::from_le_bytes);
        return search(section.start, table, count, pc, word);
    }
    let word = |index| memory.read_u64(entry_address(table, index));
    search(section.start, table, count, pc, word)
}

/// Narrows the table down to one entry, the last whose code starts at or before `pc`: to a quarter at a time while it is
/// large, since three independent reads take hardly longer than one, then to a half.
///
/// `word` is the entry of an index, as one number.
#[inline]
fn search(
    section: u64,
    table: u64,
    count: u64,
    pc: u64,
    mut word: impl FnMut(u64) -> Option<u64>,
) -> Result<Found, TableError> {
    let mut entry = |index| match word(index) {
        Some(word) => Ok((word as i32, (word >> 32) as i32)),
        None => Err(TableError::Unreadable(entry_address(table, index))),
    };
    let wanted = pc.wrapping_sub(section) as i64;
    let mut first = 0u64;
    let mut left = count;
    let mut reaches = |index: u64| entry(index).map(|(code, _)| i64::from(code) <= wanted);
    while left > 3 {
        let quarter = left / 4;
        let [one, two, three] = [1u64, 2, 3].map(|n| first.wrapping_add(quarter.wrapping_mul(n)));
        let (at_one, at_two, at_three) = (reaches(one)?, reaches(two)?, reaches(three)?);
        // The last quarter is the largest.
        left = select_unpredictable(at_three, left.wrapping_sub(quarter.wrapping_mul(3)), quarter);
        first = select_unpredictable(at_one, one, first);
        first = select_unpredictable(at_two, two, first);
        first = select_unpredictable(at_three, three, first);
    }
    while left > 1 {
        let half = left / 2;
        let middle = first.wrapping_add(half);
        first = select_unpredictable(reaches(middle)?, middle, first);
        left = left.wrapping_sub(half);
    }
    if count == 0 {
        return Err(TableError::NoEntry(pc));
    }
    let (code, fde) = entry(first)?;
    if i64::from(code) > wanted {
        return Err(TableError::NoEntry(pc));
    }
    Ok(Found::Fde(section.wrapping_add_signed(fde.into())))
}

/// `index` is below the count that was checked, so nothing overflows.
#[inline]
const fn entry_address(table: u64, index: u64) -> u64 {
    table.wrapping_add(index.wrapping_mul(ENTRY))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::memory::SliceMemory;
    use std::vec::Vec;

    const START: u64 = 0x40_0000;

    fn header(encodings: [u8; 3], entries: &[(i32, i32)]) -> Vec<u8> {
        let mut bytes = Vec::from([1, encodings[0], encodings[1], encodings[2]]);
        bytes.extend(0x100i32.to_le_bytes());
        bytes.extend((entries.len() as u32).to_le_bytes());
        entries.iter().for_each(|(code, fde)| {
            bytes.extend(code.to_le_bytes());
            bytes.extend(fde.to_le_bytes());
        });
        bytes
    }

    fn look_up(bytes: &[u8], pc: u64) -> Result<Found, TableError> {
        let section = Range { start: START, end: START + bytes.len() as u64 };
        let bases = Bases { data: Some(START), ..Bases::default() };
        find(&mut SliceMemory::new(START, bytes), &mut Window::<256>::new(), section, bases, pc)
    }

    #[test]
    fn the_last_function_at_or_before_an_address_is_found() {
        for count in (0..20i32).chain([63, 64, 65, 200]) {
            let entries: Vec<(i32, i32)> = (0..count).map(|n| ((n - 5) * 16, 1000 + n)).collect();
            let bytes = header([0x1b, 0x03, 0x3b], &entries);
            for offset in (-100..(count - 5) * 16 + 40).step_by(4) {
                let pc = START.wrapping_add_signed(offset.into());
                let expected = entries.iter().rev().find(|(code, _)| *code <= offset);
                match expected {
                    Some((_, fde)) => assert_eq!(look_up(&bytes, pc), Ok(Found::Fde(START + *fde as u64))),
                    None => assert_eq!(look_up(&bytes, pc), Err(TableError::NoEntry(pc))),
                }
            }
        }
    }

    #[test]
    fn addresses_beyond_32_bits_of_distance_are_beyond_every_entry() {
        let bytes = header([0x1b, 0x03, 0x3b], &[(-16, 1), (16, 2)]);
        assert_eq!(
            look_up(&bytes, START + (1 << 40)),
            Ok(Found::Fde(START + 2)),
            "its FDE will not contain it"
        );
        assert_eq!(look_up(&bytes, 0), Err(TableError::NoEntry(0)));
        let high = 0xffff_ffff_8000_0000;
        assert_eq!(look_up(&bytes, high), Err(TableError::NoEntry(high)));
    }

    #[test]
    fn tables_of_other_encodings_are_left_to_the_linear_search() {
        let eh_frame = Some(START + 4 + 0x100);
        let none = |encodings| look_up(&header(encodings, &[(0, 1)]), START);
        assert_eq!(none([0x1b, 0x03, 0xff]), Ok(Found::NoTable { eh_frame }));
        assert_eq!(none([0x1b, 0x03, 0x1b]), Ok(Found::NoTable { eh_frame }));
        assert_eq!(none([0x1b, 0xff, 0xff]), Ok(Found::NoTable { eh_frame }));
        assert_eq!(none([0xff, 0xff, 0xff]), Ok(Found::NoTable { eh_frame: None }));
    }

    #[test]
    fn hostile_headers_are_errors() {
        let good = header([0x1b, 0x03, 0x3b], &[(0, 1), (16, 2)]);
        let with = |at: usize, bytes: &[u8]| {
            let mut changed = good.clone();
            changed[at..at + bytes.len()].copy_from_slice(bytes);
            look_up(&changed, START)
        };
        assert_eq!(with(0, &[2]), Err(TableError::HeaderVersion(2)));
        assert_eq!(with(1, &[0x77]), Err(TableError::PointerEncoding(0x77)));
        assert_eq!(with(2, &[0x05]), Err(TableError::PointerEncoding(0x05)));
        assert_eq!(with(8, &[3]), Err(TableError::HeaderCount(3)));
        assert_eq!(with(8, &[255; 4]), Err(TableError::HeaderCount(u32::MAX.into())));
        assert_eq!(look_up(&good[..7], START), Err(TableError::CutShort));
        assert_eq!(look_up(&[], START), Err(TableError::Unreadable(START)));
        // A section that claims more than memory has.
        let section = Range { start: START, end: START + 1000 };
        let mut claims = good.clone();
        claims[8..12].copy_from_slice(&100u32.to_le_bytes());
        let found = find(
            &mut SliceMemory::new(START, &claims),
            &mut Window::<256>::new(),
            section,
            Bases::default(),
            START,
        );
        assert_eq!(found, Err(TableError::Unreadable(START + 12 + 25 * 8)));
    }
}
