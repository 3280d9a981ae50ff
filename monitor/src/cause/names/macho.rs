//! Mach-O: the symbol table, which lies in `__LINKEDIT`, mapped with the image.

use super::{known_at, number};
use crate::cause::functions::Known;
use freezeframe_unwind::images::Image;
use freezeframe_unwind::memory::Memory;

const HEADER: usize = 32;
const MAGIC_64: u64 = 0xfeed_facf;
const SEGMENT_64: u64 = 0x19;
const SYMTAB: u64 = 2;
/// Bytes of a symbol.
const SYMBOL: usize = 16;
/// How many are read at a time, and at most: those of the shared cache are few for each image.
const PIECE: usize = 128;
const MOST: u64 = 1 << 17;
/// A symbol of a debugger's; its type's bits; a symbol that is defined in a section.
const STAB: u8 = 0xe0;
const TYPE: u8 = 0x0e;
const SECTION: u8 = 0x0e;

/// Where symbols and strings lie in memory.
struct Tables {
    symbols: u64,
    count: u64,
    strings: u64,
}

pub(super) fn find(memory: &mut impl Memory, image: &Image, lookup: u64) -> Option<Known> {
    let Tables { symbols, count, strings } = tables(memory, image)?;
    let wanted = lookup.wrapping_sub(image.slide);
    // Symbols have no sizes: the function is the one that begins last before the address.
    let (mut best, mut name) = (0, None);
    let (mut at, mut left) = (symbols, count.min(MOST) as usize);
    let mut piece = [0; SYMBOL * PIECE];
    while left > 0 {
        let bytes = piece.len().min(left * SYMBOL);
        let read = memory.read(at, piece.get_mut(..bytes)?);
        for symbol in piece.get(..read)?.chunks_exact(SYMBOL) {
            let (kind, value) = (symbol.get(4).copied()?, number::<8>(symbol, 8));
            if kind & STAB == 0 && kind & TYPE == SECTION && value <= wanted && value > best {
                (best, name) = (value, Some(number::<4>(symbol, 0)));
            }
        }
        if read < bytes {
            return None;
        }
        left -= bytes / SYMBOL;
        at = at.wrapping_add(bytes as u64);
    }
    known_at(memory, strings.wrapping_add(name?))
}

/// Whether it is a program.
pub(super) fn is_program(memory: &mut impl Memory, image: &Image) -> bool {
    const EXECUTE: u64 = 2;
    let mut header = [0; HEADER];
    memory.read(image.range.start, &mut header) == HEADER
        && number::<4>(&header, 0) == MAGIC_64
        && number::<4>(&header, 12) == EXECUTE
}

fn tables(memory: &mut impl Memory, image: &Image) -> Option<Tables> {
    let mut header = [0; HEADER];
    let read = memory.read(image.range.start, &mut header);
    if read < HEADER || number::<4>(&header, 0) != MAGIC_64 {
        return None;
    }
    let mut at = image.range.start.wrapping_add(HEADER as u64);
    let (mut linkedit, mut symtab) = (None, None);
    for _ in 0..number::<4>(&header, 16).min(256) {
        let mut command = [0; 72];
        // The last ones may be shorter than the longest.
        let read = memory.read(at, &mut command);
        let (kind, size) = (number::<4>(&command, 0), number::<4>(&command, 4));
        if read < 24 || size < 8 {
            return None;
        }
        match kind {
            SEGMENT_64 if command.get(8..24)?.starts_with(b"__LINKEDIT\0") => {
                let address = number::<8>(&command, 24).wrapping_add(image.slide);
                linkedit = Some(address.wrapping_sub(number::<8>(&command, 40)));
            }
            SYMTAB => {
                symtab =
                    Some((number::<4>(&command, 8), number::<4>(&command, 12), number::<4>(&command, 16)))
            }
            _ => {}
        }
        at = at.wrapping_add(size);
    }
    // Offsets in the file are offsets in that segment.
    let (file, (symbols, count, strings)) = (linkedit?, symtab?);
    Some(Tables { symbols: file.wrapping_add(symbols), count, strings: file.wrapping_add(strings) })
}
