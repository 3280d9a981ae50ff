//! Which function an address lies in, by the unwind tables alone: they know where functions begin, though not their names.

use super::WalkContext;
use super::context::tables;
use crate::images::ImageTable;
use crate::memory::Memory;
use crate::tables::compact::CompactTable;

impl WalkContext {
    /// Where the function begins that `lookup` lies in. None if no table says so.
    ///
    /// # Signal safety
    /// Safe if `memory`, from which the tables are read, is.
    pub fn function_start<M: Memory>(
        &mut self,
        images: &ImageTable,
        mut memory: M,
        lookup: u64,
    ) -> Option<u64> {
        self.keep_for(images);
        let (_, image) = images.find(lookup).filter(|(_, image)| image.is_code(lookup))?;
        let Self { rows, pages, .. } = self;
        let mut memory = pages.over(&mut memory);
        if let Some(section) = image.unwind_info.if_any() {
            let table = CompactTable { section, image: image.range.start, text: image.text };
            return table.find(&mut memory, lookup).ok().map(|function| function.code.start);
        }
        tables(image).function(&mut memory, lookup, rows).map(|code| code.start)
    }
}
