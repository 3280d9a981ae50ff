//! The functions of a Mach-O image: a sorted index, read once, in which a lookup takes two binary searches.

use super::commands::{Extent, NLIST_BYTES, Placement, Tables};
use freezeframe_unwind::memory::Memory;
use object::macho::{N_EXT, N_SECT, N_STAB, N_TYPE};
use std::ops::Range;

/// More symbols than any image has: the bound on the work for a hostile file. 64 MiB of entries.
const MAX_SYMBOLS: u64 = 1 << 22;
const MAX_START_BYTES: u64 = 1 << 24;
/// Longer names are none.
const MAX_NAME: u64 = 1 << 16;
/// How many names for one place are looked at to find the best.
const MAX_ALIASES: usize = 16;
/// How labels begin that assemblers and compilers make, and what is no name at all.
const LABELS: [&[u8]; 5] = [b"ltmp", b"l_", b"L", b"\0", b"<red"];
/// What stands in the shared cache instead of the names of local functions.
const REDACTED: &[u8] = b"<redacted>";
/// Tables are read in pieces of this size, so that no more is allocated than is there.
const PIECE: usize = 1 << 16;

/// The functions of a Mach-O image by address, from its symbol table (`LC_SYMTAB`) and the starts of its functions
/// (`LC_FUNCTION_STARTS`). Names stay in the image's memory: in the shared cache all images share one table of strings,
/// which is too large to copy.
///
/// Where the image knows the starts of its functions, an address gets the nearest symbol before it only if that lies in
/// the same function. Of a stripped function there is a start without a name.
///
/// ```
/// use freezeframe_report::show::{FunctionIndex, Placement};
/// use freezeframe_unwind::memory::SliceMemory;
/// let file = std::fs::read(std::env::current_exe()?)?;
/// let mut memory = SliceMemory::new(0, &file);
/// match FunctionIndex::read(&mut memory, 0, Placement::File) {
///     Some(index) => println!("{:?}", index.find(0x4000).map(|function| index.name(&mut memory, &function))),
///     None => println!("no Mach-O file"),
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FunctionIndex {
    uuid: Option<[u8; 16]>,
    /// Sections with instructions. This and the other lists are sorted, and count from the image's header.
    code: Vec<Range<u32>>,
    /// The starts of all functions; empty if the image does not know them.
    starts: Vec<u32>,
    symbols: Vec<Symbol>,
    strings: Extent,
}

#[derive(Clone, Copy, Debug)]
struct Symbol {
    start: u32,
    /// Where its name begins among the strings.
    name: u32,
}

/// A place that a [`FunctionIndex`] knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// How far it begins behind the image's header.
    pub start: u64,
    name: Option<u32>,
}

impl FunctionIndex {
    /// Reads the image whose header lies at `address` of `memory`. None if there is no linked Mach-O image for 64 bits;
    /// tables that are not there, or are cut off, give an index without what they would have said.
    pub fn read<M: Memory>(memory: &mut M, address: u64, placement: Placement) -> Option<Self> {
        let tables = Tables::read(memory, address, placement)?;
        let starts = decode_starts(&read_table(memory, tables.starts, MAX_START_BYTES));
        let symbols = read_symbols(memory, &tables);
        Some(Self { uuid: tables.uuid, code: tables.code, starts, symbols, strings: tables.strings })
    }

    /// The image's UUID.
    pub const fn uuid(&self) -> Option<[u8; 16]> {
        self.uuid
    }

    /// The function that lies `offset` bytes behind the image's header. None outside of code, and where neither a name
    /// nor a start is known.
    pub fn find(&self, offset: u64) -> Option<Function> {
        let offset = u32::try_from(offset).ok()?;
        let section = at_or_before(&self.code, offset, |range| range.start)?;
        if offset >= section.end {
            return None;
        }
        let in_section = |start: &u32| *start >= section.start;
        let start = at_or_before(&self.starts, offset, |start| *start).copied().filter(in_section);
        let symbol = at_or_before(&self.symbols, offset, |symbol| symbol.start);
        let symbol = symbol.filter(|symbol| in_section(&symbol.start));
        match (start, symbol) {
            (Some(start), Some(symbol)) if symbol.start >= start => Some(symbol.function()),
            (Some(start), _) => Some(Function { start: start.into(), name: None }),
            (None, Some(symbol)) if self.starts.is_empty() => Some(symbol.function()),
            (None, _) => None,
        }
    }

    /// A function's name as it stands in the symbol table, from the memory that the index was read from; none if it has
    /// none, or if it was taken out. What is not UTF-8 is replaced.
    pub fn name<M: Memory>(&self, memory: &mut M, function: &Function) -> Option<String> {
        let name = read_string(memory, self.strings, function.name?)?;
        (!name.is_empty() && name != REDACTED).then(|| String::from_utf8_lossy(&name).into_owned())
    }
}

impl Symbol {
    fn function(&self) -> Function {
        Function { start: self.start.into(), name: Some(self.name) }
    }
}

/// The last item of a sorted list whose key is at most `key`.
fn at_or_before<T>(list: &[T], key: u32, of: impl Fn(&T) -> u32) -> Option<&T> {
    let behind = list.partition_point(|item| of(item) <= key);
    list.get(behind.checked_sub(1)?)
}

/// As much of a table as is there, up to `most` bytes.
fn read_table<M: Memory>(memory: &mut M, table: Extent, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for_each_piece(memory, table, most, |piece| bytes.extend_from_slice(piece));
    bytes
}

/// Visits a table in pieces of [`PIECE`] bytes, the last of which may be shorter.
fn for_each_piece<M: Memory>(memory: &mut M, table: Extent, most: u64, mut visit: impl FnMut(&[u8])) {
    let (mut address, mut left) = (table.address, table.size.min(most));
    let mut piece = vec![0; usize::try_from(left).unwrap_or(PIECE).min(PIECE)];
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        let Some(part) = piece.get_mut(..wanted) else { return };
        let read = memory.read(address, part).min(wanted);
        visit(part.get(..read).unwrap_or(&[]));
        if read < wanted {
            return;
        }
        left -= wanted as u64;
        let Some(next) = address.checked_add(wanted as u64) else { return };
        address = next;
    }
}

/// The starts: each a LEB128 number, the distance from the one before it, the first from the header. Zero ends them.
fn decode_starts(bytes: &[u8]) -> Vec<u32> {
    let mut starts = Vec::new();
    let mut bytes = bytes.iter();
    let mut start = 0u32;
    loop {
        let mut distance = 0u32;
        for shift in [0, 7, 14, 21, 28] {
            let Some(byte) = bytes.next() else { return starts };
            let part = u32::from(byte & 0x7f);
            // Beyond 32 bits: no code is that far away.
            if part.leading_zeros() < shift {
                return starts;
            }
            distance |= part << shift;
            if byte & 0x80 == 0 {
                break;
            }
            if shift == 28 {
                return starts;
            }
        }
        match start.checked_add(distance) {
            Some(next) if distance > 0 => start = next,
            _ => return starts,
        }
        starts.push(start);
    }
}

/// The symbols in code, one for each place.
fn read_symbols<M: Memory>(memory: &mut M, tables: &Tables) -> Vec<Symbol> {
    let mut symbols: Vec<(Symbol, bool)> = Vec::new();
    for_each_piece(memory, tables.symbols, MAX_SYMBOLS * NLIST_BYTES as u64, |piece| {
        symbols.extend(piece.chunks_exact(NLIST_BYTES).filter_map(|entry| symbol(entry, tables)));
    });
    // Stable: of equals the first of the symbol table comes first.
    symbols.sort_by_key(|(symbol, local)| (symbol.start, *local));
    let mut places: Vec<Symbol> = symbols
        .chunk_by(|(a, _), (b, _)| a.start == b.start)
        .filter_map(|aliases| best(memory, tables.strings, aliases))
        .collect();
    places.shrink_to_fit();
    places
}

/// A symbol that names a place in code, and whether it is local to its image. No debugging entry, nothing undefined.
fn symbol(entry: &[u8], tables: &Tables) -> Option<(Symbol, bool)> {
    let (name, rest) = entry.split_first_chunk()?;
    let ([kind, _section, _, _], rest) = rest.split_first_chunk::<4>()?;
    let (name, address) = (u32::from_le_bytes(*name), u64::from_le_bytes(*rest.first_chunk()?));
    if kind & N_STAB != 0 || kind & N_TYPE != N_SECT || name == 0 {
        return None;
    }
    let start = u32::try_from(address.checked_sub(tables.linked_at)?).ok()?;
    let section = at_or_before(&tables.code, start, |range| range.start)?;
    (start < section.end).then_some((Symbol { start, name }, kind & N_EXT == 0))
}

/// Of several names for one place, sorted: the first that other images see, else the first that is no label of the
/// assembler's or the compiler's, else the first.
fn best<M: Memory>(memory: &mut M, strings: Extent, aliases: &[(Symbol, bool)]) -> Option<Symbol> {
    let (first, local) = aliases.first()?;
    if !local || aliases.len() == 1 {
        return Some(*first);
    }
    let mut is_label = |symbol: &Symbol| {
        let mut prefix = [0; 4];
        let place = strings.address.wrapping_add(symbol.name.into());
        u64::from(symbol.name) >= strings.size
            || memory.read(place, &mut prefix) == 0
            || LABELS.iter().any(|label| prefix.starts_with(label))
    };
    let mut few = aliases.iter().take(MAX_ALIASES).map(|(symbol, _)| symbol);
    few.find(|symbol| !is_label(symbol)).or(Some(first)).copied()
}

/// The string at `offset` of the strings; none if it has no end, or is longer than a name is.
fn read_string<M: Memory>(memory: &mut M, strings: Extent, offset: u32) -> Option<Vec<u8>> {
    let start = strings.address.checked_add(offset.into())?;
    let size = strings.size.checked_sub(offset.into())?.min(MAX_NAME);
    let mut string = Vec::new();
    let mut piece = [0; 128];
    while (string.len() as u64) < size {
        let address = start.checked_add(string.len() as u64)?;
        let wanted = piece.len().min((size - string.len() as u64) as usize);
        let read = memory.read(address, piece.get_mut(..wanted)?).min(wanted);
        let part = piece.get(..read)?;
        if let Some(end) = part.iter().position(|byte| *byte == 0) {
            string.extend_from_slice(part.get(..end)?);
            return Some(string);
        }
        string.extend_from_slice(part);
        if read < wanted {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use freezeframe_unwind::memory::SliceMemory;

    #[test]
    fn starts_are_distances_and_end_with_zero_or_where_they_make_no_sense() {
        assert_eq!(decode_starts(&[0x10, 4, 0x80, 1, 0, 9]), [16, 20, 148]);
        assert_eq!(decode_starts(&[0x10, 0x80]), [16], "cut off");
        assert_eq!(
            decode_starts(&[0xff, 0xff, 0xff, 0xff, 0x0f, 1]),
            [u32::MAX],
            "the farthest, and one beyond"
        );
        assert_eq!(decode_starts(&[1, 0xff, 0xff, 0xff, 0xff, 0x1f]), [1], "33 bits");
        assert_eq!(decode_starts(&[1, 0x80, 0x80, 0x80, 0x80, 0x80, 1]), [1], "six bytes");
        assert!(decode_starts(&[]).is_empty());
    }

    #[test]
    fn of_several_names_the_exported_one_is_taken_and_no_label() {
        let bytes = b"\0ltmp0\0_one\0l_two\0_three\0ltmp9";
        let strings = Extent { address: 100, size: bytes.len() as u64 };
        let mut memory = SliceMemory::new(100, bytes);
        let mut best_of = |aliases: &[(u32, bool)]| {
            let aliases: Vec<_> =
                aliases.iter().map(|(name, local)| (Symbol { start: 8, name: *name }, *local)).collect();
            best(&mut memory, strings, &aliases).unwrap().name
        };
        assert_eq!(best_of(&[(1, false), (7, true)]), 1, "what is exported is a name, however it begins");
        assert_eq!(
            best_of(&[(1, true), (12, true), (18, true), (7, true)]),
            18,
            "the first that is no label"
        );
        assert_eq!(best_of(&[(1, true), (12, true)]), 1, "labels only");
        assert_eq!(best_of(&[(40, true), (24, true), (7, true)]), 7, "neither beyond the strings nor empty");
    }

    #[test]
    fn a_name_that_was_taken_out_is_none() {
        let bytes = b"\0<redacted>\0_redacted>\0";
        let (mut memory, mut index) = (SliceMemory::new(0, bytes), index(&[], &[]));
        index.strings.size = bytes.len() as u64;
        let mut name = |name| index.name(&mut memory, &Function { start: 16, name: Some(name) });
        assert_eq!((name(1), name(0), name(12).as_deref()), (None, None, Some("_redacted>")));
        let aliases = [1, 12].map(|name| (Symbol { start: 16, name }, true));
        assert_eq!(best(&mut memory, index.strings, &aliases).unwrap().name, 12);
    }

    fn index(starts: &[u32], symbols: &[u32]) -> FunctionIndex {
        let symbols = symbols.iter().map(|start| Symbol { start: *start, name: *start }).collect();
        let code = vec![16..64, 80..96];
        FunctionIndex { uuid: None, code, starts: starts.to_vec(), symbols, strings: Extent::default() }
    }

    #[test]
    fn a_name_reaches_no_further_than_its_function_and_its_section() {
        let index = index(&[16, 32, 48], &[16, 24, 48]);
        let find = |offset| index.find(offset).map(|function| (function.start, function.name.is_some()));
        assert_eq!((find(15), find(16), find(23)), (None, Some((16, true)), Some((16, true))));
        assert_eq!(find(24), Some((24, true)), "a name inside of a function");
        assert_eq!((find(32), find(47)), (Some((32, false)), Some((32, false))), "a function without a name");
        assert_eq!((find(48), find(63), find(64)), (Some((48, true)), Some((48, true)), None));
        assert_eq!(find(80), None, "a section of which nothing is known");
    }

    #[test]
    fn where_starts_are_not_known_a_name_reaches_to_the_next_or_the_end_of_the_section() {
        let index = index(&[], &[16, 48]);
        let find = |offset| index.find(offset).map(|function| function.start);
        assert_eq!((find(47), find(48), find(63)), (Some(16), Some(48), Some(48)));
        assert_eq!((find(64), find(80)), (None, None));
    }

    #[test]
    fn a_name_ends_with_a_zero_and_is_not_longer_than_names_are() {
        let mut bytes = vec![b'a'; MAX_NAME as usize + 10];
        bytes[200] = 0;
        let strings = Extent { address: 0, size: bytes.len() as u64 };
        let read =
            |offset| read_string(&mut SliceMemory::new(0, &bytes), strings, offset).map(|name| name.len());
        assert_eq!((read(0), read(150), read(200)), (Some(200), Some(50), Some(0)));
        assert_eq!((read(201), read(u32::MAX)), (None, None));
    }
}
