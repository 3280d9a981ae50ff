//! The search through `.eh_frame` from its start: where there is no index.

use super::TableError;
use super::entry::{Cie, Fde, Head};
use super::pointer::Bases;
use super::program::Windows;
use crate::images::Range;
use crate::memory::{Cursor, Memory};

/// The largest programs have about a million functions, and an index.
const MAX_ENTRIES: u32 = 1 << 20;
/// The longest head of an entry.
const HEAD: usize = 16;

/// The first FDE in `extent` that contains `pc`, and its CIE.
///
/// An FDE that cannot be read is passed over: its length says where the next one is. If nothing is found after that,
/// the error of the first is returned.
pub(super) fn find<M: Memory>(
    memory: &mut M,
    windows: Windows<'_>,
    extent: Range,
    bases: Bases,
    pc: u64,
) -> Result<(Fde, Cie), TableError> {
    let mut trouble = TableError::NoEntry(pc);
    let mut last_cie: Option<Cie> = None;
    let mut at = extent.start;
    for _ in 0..MAX_ENTRIES {
        if at >= extent.end {
            return Err(trouble);
        }
        let mut cursor = Cursor::new(at, windows.fde.at(memory, at, HEAD), extent.end);
        let Some(head) = Head::read(&mut cursor, extent)? else { return Err(trouble) };
        // At least the length field, so that the search goes on.
        at = head.end;
        let Some(address) = head.cie else { continue };
        let cie = match last_cie {
            Some(cie) if cie.address == address => Ok(cie),
            _ => Cie::read(memory, windows.cie, extent, &bases, address),
        };
        let found = cie.and_then(|cie| {
            last_cie = Some(cie);
            Fde::read(memory, windows.fde, &bases, &head, &cie).map(|fde| (fde, cie))
        });
        match found {
            Ok((fde, cie)) if fde.code.contains(pc) => return Ok((fde, cie)),
            Err(error) if trouble == TableError::NoEntry(pc) => trouble = error,
            Ok(_) | Err(_) => {}
        }
    }
    Err(TableError::TooManyEntries)
}
