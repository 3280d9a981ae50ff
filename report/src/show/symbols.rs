//! Names of functions, from the symbol tables of the ELF files that were loaded, if they are still the same files.

use crate::read::{Image, Record, Symbol};
use object::{Object, ObjectSymbol, SymbolKind};
use std::collections::HashMap;
use std::path::Path;

/// Symbol tables of files, each read once.
#[derive(Debug, Default)]
pub struct Symbols {
    files: HashMap<(String, String), Option<Table>>,
}

/// Functions by address in their file: start, end, name.
#[derive(Debug)]
struct Table(Vec<(u64, u64, String)>);

impl Symbols {
    /// No files yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names every frame of a record whose image's file is at hand with the same build id. A frame outside every
    /// function's extent stays without a name: the nearest one would be a guess.
    pub fn name_frames(&mut self, record: &mut Record) {
        let images = std::mem::take(&mut record.images);
        for frame in record.threads.iter_mut().flat_map(|thread| &mut thread.frames) {
            let Some(image) = Image::of(&images, frame) else { continue };
            let Some(table) = self.table(image) else { continue };
            let in_file = |address: u64| address.wrapping_sub(image.slide);
            frame.symbol = table.find(in_file(frame.lookup)).map(|(start, name)| Symbol {
                name: demangle(name),
                offset: in_file(frame.address).wrapping_sub(start),
            });
        }
        record.images = images;
    }

    fn table(&mut self, image: &Image) -> Option<&Table> {
        if image.kind != "elf" || image.build_id.is_empty() {
            return None;
        }
        let key = (image.path.clone(), image.build_id.clone());
        self.files.entry(key).or_insert_with(|| Table::read(Path::new(&image.path), &image.build_id)).as_ref()
    }
}

impl Table {
    fn read(path: &Path, build_id: &str) -> Option<Self> {
        // A path from a hostile report: no pipe is waited for, and nothing but a file is read.
        if !std::fs::metadata(path).ok()?.is_file() {
            return None;
        }
        let file = std::fs::File::open(path).ok()?;
        // SAFETY: the file may change while it is mapped; `object` checks every offset against the mapping's length, so
        // that the worst is a wrong name or, if it is truncated meanwhile, the end of this reading process.
        let map = unsafe { memmap2::Mmap::map(&file) }.ok()?;
        let object = object::File::parse(&*map).ok()?;
        let id: String = object.build_id().ok()??.iter().map(|byte| format!("{byte:02x}")).collect();
        if id != build_id {
            return None;
        }
        let mut functions: Vec<_> = object
            .symbols()
            .chain(object.dynamic_symbols())
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition() && symbol.size() > 0)
            .filter_map(|symbol| {
                let end = symbol.address().checked_add(symbol.size())?;
                Some((symbol.address(), end, symbol.name().ok()?.to_owned()))
            })
            .collect();
        // Of several names for one place the first of the symbol table stays.
        functions.sort_by_key(|(start, end, _)| (*start, *end));
        functions.dedup_by_key(|(start, end, _)| (*start, *end));
        Some(Self(functions))
    }

    fn find(&self, address: u64) -> Option<(u64, &str)> {
        let behind = self.0.partition_point(|(start, ..)| *start <= address);
        let (start, end, name) = self.0.get(behind.checked_sub(1)?)?;
        (address < *end).then_some((*start, name.as_str()))
    }
}

/// A readable name: Rust's without the hash, C++'s with its parameters, others as they are. Versions (`@GLIBC_2.2.5`) are
/// cut off.
fn demangle(name: &str) -> String {
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(readable) = symbol.demangle()
    {
        return readable;
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_readable() {
        assert_eq!(demangle("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE"), "core::fmt::Formatter::pad");
        assert_eq!(demangle("_RNvC6_123foo3bar"), "123foo::bar");
        assert_eq!(demangle("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(demangle("read@GLIBC_2.2.5"), "read");
        assert_eq!(demangle("main"), "main");
    }

    #[test]
    fn a_place_between_functions_has_no_name() {
        let table = Table(vec![(16, 32, "one".into()), (40, 48, "two".into())]);
        let find = |address| table.find(address).map(|(_, name)| name);
        assert_eq!((find(15), find(16), find(31), find(32)), (None, Some("one"), Some("one"), None));
        assert_eq!((find(40), find(48)), (Some("two"), None));
    }
}
