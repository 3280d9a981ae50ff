//! Names out of a Mach-O image: of its file, or of the same image where it is loaded in this process.

use super::commands::{Placement, Tables};
use super::functions::{Function, FunctionIndex};
use freezeframe_unwind::images::{Image, ImageKind, ImageTable};
use freezeframe_unwind::memory::{ProcessMemory, SliceMemory};
use memmap2::Mmap;
use object::read::macho::{FatArch, MachOFatFile32, MachOFatFile64};
use std::collections::HashMap;
use std::ops::Range;

/// More than there are architectures.
const MAX_PARTS: usize = 32;

/// A file, thin or fat.
#[derive(Debug)]
pub(super) struct File {
    map: Mmap,
    /// The part of it that is the image.
    part: Range<usize>,
    index: FunctionIndex,
}

impl File {
    /// None if no part of the file is the image with this UUID.
    pub(super) fn read(map: Mmap, uuid: &str) -> Option<Self> {
        let (part, index) = parts(&map).into_iter().take(MAX_PARTS).find_map(|part| {
            let mut memory = SliceMemory::new(0, map.get(part.clone())?);
            // Before its tables are read: a hostile file may have many parts, all with the same long tables.
            let id = Tables::read(&mut memory, 0, Placement::File)?.uuid?;
            (super::hexadecimal(&id) == uuid).then_some(())?;
            Some((part, FunctionIndex::read(&mut memory, 0, Placement::File)?))
        })?;
        Some(Self { map, part, index })
    }

    /// The function that lies `offset` bytes behind the image's header, and its name.
    pub(super) fn find(&self, offset: u64) -> Option<(Function, String)> {
        let mut memory = SliceMemory::new(0, self.map.get(self.part.clone())?);
        let function = self.index.find(offset)?;
        Some((function, self.index.name(&mut memory, &function)?))
    }
}

/// Where the images of a file lie: the whole file, unless it is fat.
fn parts(file: &[u8]) -> Vec<Range<usize>> {
    fn ranges<F: FatArch>(arches: &[F]) -> Vec<Range<usize>> {
        let range = |arch: &F| {
            let (start, size) = arch.file_range();
            Some(usize::try_from(start).ok()?..usize::try_from(start.checked_add(size)?).ok()?)
        };
        arches.iter().filter_map(range).collect()
    }
    if let Ok(fat) = MachOFatFile32::parse(file) {
        return ranges(fat.arches());
    }
    match MachOFatFile64::parse(file) {
        Ok(fat) => ranges(fat.arches()),
        Err(_) => std::iter::once(0..file.len()).collect(),
    }
}

/// The images that are loaded in this process: of those in the shared cache there is no file.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    images: Option<Box<ImageTable>>,
    /// Whether the table is known to be of now.
    fresh: bool,
    /// By the image's UUID.
    indexes: HashMap<String, Option<FunctionIndex>>,
}

impl Loaded {
    /// What is loaded may be something else by now.
    pub(super) fn look_again(&mut self) {
        self.fresh = false;
    }

    /// The function of the image with this UUID that lies `offset` bytes behind its header, and its name.
    pub(super) fn find(&mut self, uuid: &str, offset: u64) -> Option<(Function, String)> {
        self.refresh();
        let images = self.images.as_deref()?;
        if !self.indexes.contains_key(uuid) {
            self.indexes.insert(uuid.to_owned(), read_loaded(images, uuid));
        }
        let index = self.indexes.get(uuid)?.as_ref()?;
        let function = index.find(offset)?;
        Some((function, index.name(&mut ProcessMemory::new(), &function)?))
    }

    /// Forgets what was read if an image has come or gone.
    fn refresh(&mut self) {
        if std::mem::replace(&mut self.fresh, true) {
            return;
        }
        let images = self.images.get_or_insert_with(|| Box::new(ImageTable::new()));
        let before = images.version();
        // What it had before is no worse than nothing.
        let _ = images.refresh();
        if images.version() != before {
            self.indexes.clear();
        }
    }
}

fn read_loaded(images: &ImageTable, uuid: &str) -> Option<FunctionIndex> {
    let same =
        |image: &&Image| image.kind == ImageKind::MachO && super::hexadecimal(images.build_id(image)) == uuid;
    let start = images.images().iter().find(same)?.range.start;
    FunctionIndex::read(&mut ProcessMemory::new(), start, Placement::Loaded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use freezeframe_arch::Architecture;
    use freezeframe_unwind::images::part_of_fat_file;

    /// What the table below does not find, since no loader has loaded it.
    const FILE: &[u8] = include_bytes!("../../../tests/data/functions.dylib");

    #[test]
    fn an_image_of_this_process_is_found_by_its_uuid_and_read_where_it_lies() {
        // The segments of this file lie in it as they do in memory.
        let image = part_of_fat_file(FILE, Architecture::Arm64).unwrap().to_vec();
        let start = image.as_ptr() as u64;
        let mut images = Box::new(ImageTable::new());
        images.add(&mut ProcessMemory::new(), start, b"/usr/lib/of_the_shared_cache.dylib").unwrap();
        let mut loaded = Loaded { images: Some(images), fresh: true, indexes: HashMap::new() };
        let uuid = "4c4c447255553144a19a29fa288c2179";
        let (function, name) = loaded.find(uuid, 0x530).unwrap();
        assert_eq!((function.start, name.as_str()), (0x524, "_exported"));
        assert_eq!(loaded.find(uuid, 0x4000), None);
        assert_eq!(loaded.find("4c4c447255553144a19a29fa288c2178", 0x530), None);
        assert_eq!(loaded.indexes.len(), 2, "what is not there is not looked for again");
        // The image is gone from the table of this process as it is now.
        loaded.look_again();
        assert_eq!(loaded.find(uuid, 0x530), None);
        drop(image);
    }

    #[test]
    fn a_fat_file_has_its_parts_and_another_is_one_part() {
        assert_eq!(parts(FILE), [0x1000..0x1000 + 17004, 0x8000..0x8000 + 50480]);
        assert_eq!(parts(b"thin").first(), Some(&(0..4)));
        let endless = [&FILE[..4], &[0xff; 4], &[0; 100]].concat();
        assert_eq!(parts(&endless).first(), Some(&(0..108)), "more parts than the file has room for");
    }
}
