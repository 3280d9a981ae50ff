//! The functions of an ELF file, by its symbol tables.
//!
//! The file may be hostile: what is read of it is bounded, and names are read one by one, when they are asked for.

use memmap2::Mmap;
use object::LittleEndian as Little;
use object::elf::{self, FileHeader64, SectionHeader64, Sym64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use std::ops::Range;

/// More symbols than any image has.
const MAX_SYMBOLS: usize = 1 << 22;
/// Longer names are none.
const MAX_NAME: usize = 1 << 16;
/// More than any linker makes, and more than a build id needs.
const MAX_NOTES: usize = 64;
const MAX_NOTE_BYTES: u64 = 1 << 16;

/// Functions by address in their file.
#[derive(Debug)]
pub(super) struct Table<B = Mmap> {
    file: B,
    functions: Vec<Function>,
}

#[derive(Debug)]
struct Function {
    start: u64,
    end: u64,
    /// Where in the file its name begins, and where it must have ended.
    name: Range<usize>,
}

impl<B: AsRef<[u8]>> Table<B> {
    /// None if it is no ELF file for 64 bits, or has another build id.
    pub(super) fn read(file: B, build_id: &str) -> Option<Self> {
        let bytes = file.as_ref();
        let header = FileHeader64::<Little>::parse(bytes).ok()?;
        if super::hexadecimal(gnu_build_id(header, bytes)?) != build_id {
            return None;
        }
        let mut functions = Vec::new();
        // Of several names for one place the first of the symbol table stays.
        for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
            add_functions(&mut functions, header, bytes, kind);
        }
        functions.sort_by_key(|function| (function.start, function.end));
        functions.dedup_by_key(|function| (function.start, function.end));
        functions.shrink_to_fit();
        Some(Self { file, functions })
    }

    /// The function that an address of the file lies in: its start and its name without a version (`@GLIBC_2.2.5`).
    pub(super) fn find(&self, address: u64) -> Option<(u64, &str)> {
        let behind = self.functions.partition_point(|function| function.start <= address);
        let function = self.functions.get(behind.checked_sub(1)?)?;
        let name = self.file.as_ref().get(function.name.clone())?;
        let name = name.get(..name.iter().position(|byte| *byte == 0)?)?;
        let name = str::from_utf8(name).ok()?;
        let name = name.split_once('@').map_or(name, |(name, _)| name);
        (address < function.end).then_some((function.start, name))
    }
}

/// By the program headers: what was loaded has them.
fn gnu_build_id<'a>(header: &FileHeader64<Little>, file: &'a [u8]) -> Option<&'a [u8]> {
    let headers = header.program_headers(Little, file).ok()?;
    let notes = headers.iter().filter(|header| header.p_type(Little) == elf::PT_NOTE).take(MAX_NOTES);
    for segment in notes.filter(|header| header.p_filesz(Little) <= MAX_NOTE_BYTES) {
        let Ok(Some(mut notes)) = segment.notes(Little, file) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(Little) == elf::NT_GNU_BUILD_ID {
                return Some(note.desc());
            }
        }
    }
    None
}

/// The functions of the first symbol table of that kind.
fn add_functions(
    functions: &mut Vec<Function>,
    header: &FileHeader64<Little>,
    file: &[u8],
    kind: u32,
) -> Option<()> {
    let sections = header.sections(Little, file).ok()?;
    let table: &SectionHeader64<Little> = sections.iter().find(|section| section.sh_type(Little) == kind)?;
    let symbols: &[Sym64<Little>] = table.data_as_array(Little, file).ok()?;
    let (start, size) = sections.section(table.link(Little)).ok()?.file_range(Little)?;
    let strings =
        usize::try_from(start).ok()?..usize::try_from(start.checked_add(size)?).ok()?.min(file.len());
    let functions_of = |symbol: &Sym64<Little>| {
        let is_function = matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC);
        if !is_function || symbol.st_shndx(Little) == elf::SHN_UNDEF || symbol.st_size(Little) == 0 {
            return None;
        }
        let start = symbol.st_value(Little);
        let name = strings.start.checked_add(symbol.st_name(Little) as usize)?;
        let name = name..name.saturating_add(MAX_NAME).min(strings.end);
        Some(Function { start, end: start.checked_add(symbol.st_size(Little))?, name })
    };
    functions.extend(symbols.iter().take(MAX_SYMBOLS).filter_map(functions_of));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_between_functions_has_no_name() {
        let file = b"one\0two@GLIBC_2.2.5\0endless";
        let function = |start, end, name| Function { start, end, name };
        let functions = vec![
            function(16, 32, 0..20),
            function(40, 48, 4..20),
            function(50, 60, 20..27),
            function(70, 80, 90..99),
        ];
        let table = Table { file, functions };
        let find = |address| table.find(address).map(|(_, name)| name);
        assert_eq!((find(15), find(16), find(31), find(32)), (None, Some("one"), Some("one"), None));
        assert_eq!((find(40), find(48)), (Some("two"), None));
        assert_eq!((find(50), find(70)), (None, None), "a name without an end, and one outside");
    }
}
