//! The functions of an ELF file, by its symbol tables.

use object::{Object, ObjectSymbol, SymbolKind};

/// Functions by address in their file: start, end, name.
#[derive(Debug)]
pub(super) struct Table(Vec<(u64, u64, String)>);

impl Table {
    /// None if it is no ELF file, or has another build id.
    pub(super) fn read(file: &[u8], build_id: &str) -> Option<Self> {
        let object = object::File::parse(file).ok()?;
        if super::hexadecimal(object.build_id().ok()??) != build_id {
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

    /// The function that an address of the file lies in: its start and its name without a version (`@GLIBC_2.2.5`).
    pub(super) fn find(&self, address: u64) -> Option<(u64, &str)> {
        let behind = self.0.partition_point(|(start, ..)| *start <= address);
        let (start, end, name) = self.0.get(behind.checked_sub(1)?)?;
        let name = name.split_once('@').map_or(name.as_str(), |(name, _)| name);
        (address < *end).then_some((*start, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_between_functions_has_no_name() {
        let table = Table(vec![(16, 32, "one".into()), (40, 48, "two@GLIBC_2.2.5".into())]);
        let find = |address| table.find(address).map(|(_, name)| name);
        assert_eq!((find(15), find(16), find(31), find(32)), (None, Some("one"), Some("one"), None));
        assert_eq!((find(40), find(48)), (Some("two"), None));
    }
}
