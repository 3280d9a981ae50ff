//! Adding an image to the table, whatever its format.

use super::table::{Image, ImageKind, ImageTable, Range};
use super::{elf, macho};
use crate::memory::Memory;

impl ImageTable {
    /// Adds the ELF or Mach-O image whose file header lies at `load_address` of `memory`: a loaded library, a core file's,
    /// a file's own bytes, a test's. Returns its range; none if there is no image, or no room.
    ///
    /// # Signal safety
    /// Safe if `memory` is.
    pub fn add<M: Memory>(&mut self, memory: &mut M, load_address: u64, path: &[u8]) -> Option<Range> {
        let kind = match macho::begins_at(memory, load_address) {
            true => ImageKind::MachO,
            false => ImageKind::Elf,
        };
        let range = self.add_image(memory, kind, load_address, (0, load_address), path)?;
        self.settle();
        Some(range)
    }

    /// Marks an image as still there.
    pub(super) fn keep_known(&mut self, kind: ImageKind, start: u64, file: (u64, u64)) -> Option<Range> {
        let generation = self.generation;
        let images = self.images.get_mut(..self.count)?;
        let (settled, added) = images.split_at_mut_checked(self.settled)?;
        let first = settled.partition_point(|image| image.range.start < start);
        let here = settled.iter_mut().skip(first).take_while(|image| image.range.start == start);
        let known = here
            .chain(added)
            .find(|image| image.range.start == start && image.file == file && image.kind == kind)?;
        known.generation = generation;
        Some(known.range)
    }

    pub(super) fn add_image<M: Memory>(
        &mut self,
        memory: &mut M,
        kind: ImageKind,
        start: u64,
        file: (u64, u64),
        path: &[u8],
    ) -> Option<Range> {
        if let Some(range) = self.keep_known(kind, start, file) {
            return Some(range);
        }
        let mut image = Image { kind, file, generation: self.generation, ..Image::EMPTY };
        let build_id = match kind {
            ImageKind::MachO => macho::read(memory, start, &mut image)?,
            _ => elf::read(memory, start, &mut image)?,
        };
        image.build_id = self.intern(build_id.bytes()).unwrap_or_default();
        image.path = self.intern(path).unwrap_or_default();
        self.push(image);
        Some(image.range)
    }
}
