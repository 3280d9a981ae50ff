//! The images of another process: their bytes, unwind tables and symbols.

use super::memory::read_process;
use crate::elf::CfiFile;
use crate::oracle;
use freezeframe_unwind::images::{ImageTable, Range};
use freezeframe_unwind::memory::Memory;
use gimli::UnwindSection;
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use std::fmt;
use std::io;
use std::path::Path;

/// All images of a process, with a copy of what they have in memory.
pub struct Images {
    /// For the walker.
    pub table: Box<ImageTable>,
    /// The end of the main thread's stack.
    pub stack_end: u64,
    copies: Vec<Copy>,
    lends: bool,
}

struct Copy {
    start: u64,
    bytes: Vec<u8>,
    name: String,
    symbols: Vec<Symbol>,
    /// The unwind tables for gimli, at the addresses that the file gives.
    tables: Option<CfiFile>,
}

struct Symbol {
    range: Range,
    name: String,
}

struct Mapping<'a> {
    range: Range,
    executable: bool,
    offset: u64,
    path: &'a str,
}

impl<'a> Mapping<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
        Some(Self {
            range: Range { start: hexadecimal(start)?, end: hexadecimal(end)? },
            executable: fields.next()?.contains('x'),
            offset: hexadecimal(fields.next()?)?,
            path: fields.nth(2).unwrap_or(""),
        })
    }
}

impl Images {
    /// The images that process `pid` has mapped now. Their memory lends its bytes, or is only copied from, as a process's.
    ///
    /// # Errors
    /// Its mappings cannot be read.
    pub fn of(pid: i32, lends: bool) -> io::Result<Self> {
        let mut images =
            Self { table: Box::new(ImageTable::new()), stack_end: u64::MAX, copies: Vec::new(), lends };
        images.refresh(pid)?;
        Ok(images)
    }

    /// Adds what was mapped since.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn refresh(&mut self, pid: i32) -> io::Result<()> {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let mappings: Vec<Mapping<'_>> = maps.lines().filter_map(Mapping::parse).collect();
        if let Some(stack) = mappings.iter().find(|mapping| mapping.path == "[stack]") {
            self.stack_end = stack.range.end;
        }
        for first in mappings.iter().filter(|mapping| mapping.offset == 0) {
            let is_file = first.path.starts_with('/') || first.path == "[vdso]";
            let known = self.copies.iter().any(|copy| copy.start == first.range.start);
            let has_code = mappings.iter().any(|other| other.path == first.path && other.executable);
            if !is_file || known || !has_code {
                continue;
            }
            let mut memory = Remote(pid);
            if let Some(range) = self.table.add(&mut memory, first.range.start, first.path.as_bytes()) {
                self.copies.push(Copy::new(pid, range, first.path));
            }
        }
        self.copies.sort_by_key(|copy| copy.start);
        Ok(())
    }

    /// The images' bytes as memory.
    pub fn memory(&self) -> ImagesMemory<'_> {
        ImagesMemory { copies: &self.copies, lends: self.lends }
    }

    /// Where an address lies: image, symbol (or section, where no symbol covers it), and offset from there.
    pub fn place(&self, address: u64) -> Place<'_> {
        let Some(copy) = find(&self.copies, address) else {
            return Place { image: "no image", symbol: "", offset: address };
        };
        let offset = address - copy.start;
        let symbol = copy.symbols.iter().find(|symbol| symbol.range.contains(offset));
        let (symbol, start) = symbol.map_or(("", 0), |symbol| (&symbol.name, symbol.range.start));
        Place { image: &copy.name, symbol, offset: offset - start }
    }

    /// Whether an image's unwind tables have an entry for the address, by gimli.
    pub fn has_tables(&self, address: u64) -> bool {
        self.row(address).is_some()
    }

    /// Whether the unwind tables have the caller's rbp where an expression says.
    pub fn is_rbp_in_expression(&self, address: u64) -> bool {
        let rule = self.row(address).map(|row| row.register(gimli::X86_64::RBP));
        matches!(rule, Some(Some(gimli::RegisterRule::Expression(_))))
    }

    fn row(&self, address: u64) -> Option<oracle::GimliRow> {
        let copy = find(&self.copies, address)?;
        let file = copy.tables.as_ref()?;
        let in_file = address - copy.start + (file.image.start & !4095);
        let (section, bases) = (oracle::section(file), oracle::bases(file));
        let mut context = gimli::UnwindContext::new();
        let from = gimli::EhFrame::cie_from_offset;
        section.unwind_info_for_address(&bases, &mut context, in_file, from).ok().cloned()
    }
}

/// See [`Images::place`].
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The image's file name.
    pub image: &'a str,
    /// The function, or the section.
    pub symbol: &'a str,
    /// How far into it.
    pub offset: u64,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}!{}+{:#x}", self.image, self.symbol, self.offset)
    }
}

impl fmt::Debug for Images {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.copies.iter().map(|copy| (copy.start, &copy.name))).finish()
    }
}

impl Copy {
    fn new(pid: i32, range: Range, path: &str) -> Self {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        // By the page: there may be holes between segments.
        for (page, address) in bytes.chunks_mut(4096).zip((range.start..).step_by(4096)) {
            read_process(pid, address, page);
        }
        let name =
            Path::new(path).file_name().map_or(path.into(), |name| name.to_string_lossy().into_owned());
        let file = if path == "[vdso]" { Ok(bytes.clone()) } else { std::fs::read(path) };
        let file = file.unwrap_or_default();
        Self { start: range.start, bytes, name, symbols: symbols(&file), tables: CfiFile::parse(&file) }
    }
}

/// The functions of a file, at their offsets from its load address, and after them the sections of its code.
fn symbols(file: &[u8]) -> Vec<Symbol> {
    let Ok(file) = object::File::parse(file) else { return Vec::new() };
    let base = file.segments().map(|segment| object::ObjectSegment::address(&segment)).min().unwrap_or(0);
    let base = base & !4095;
    let range = |start: u64, size: u64| Range { start: start - base, end: start - base + size };
    let functions = file
        .symbols()
        .chain(file.dynamic_symbols())
        .filter(|symbol| symbol.size() > 0 && matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown))
        .filter_map(|symbol| Some((range(symbol.address(), symbol.size()), symbol.name().ok()?.to_string())));
    let sections = file.sections().filter(|section| section.address() >= base.max(1)).filter_map(|section| {
        Some((range(section.address(), section.size()), section.name().ok()?.to_string()))
    });
    functions.chain(sections).map(|(range, name)| Symbol { range, name }).collect()
}

/// A process's memory, uncached.
struct Remote(i32);

impl Memory for Remote {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        read_process(self.0, address, out)
    }
}

fn find(copies: &[Copy], address: u64) -> Option<&Copy> {
    let index = copies.partition_point(|copy| copy.start <= address).checked_sub(1)?;
    copies.get(index).filter(|copy| address - copy.start < copy.bytes.len() as u64)
}

/// See [`Images::memory`].
#[derive(Clone, Copy)]
pub struct ImagesMemory<'a> {
    copies: &'a [Copy],
    lends: bool,
}

impl<'a> ImagesMemory<'a> {
    /// All bytes of the image from `address` on.
    pub fn tail(&self, address: u64) -> Option<&'a [u8]> {
        let copy = find(self.copies, address)?;
        copy.bytes.get((address - copy.start) as usize..)
    }
}

impl fmt::Debug for ImagesMemory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} images", self.copies.len())
    }
}

impl Memory for ImagesMemory<'_> {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        let tail = self.tail(address).unwrap_or(&[]);
        let count = tail.len().min(out.len());
        out[..count].copy_from_slice(&tail[..count]);
        count
    }

    fn bytes(&self, address: u64) -> Option<&[u8]> {
        self.tail(address).filter(|_| self.lends)
    }
}
