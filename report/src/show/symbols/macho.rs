//! Names out of a Mach-O image: of its file, or of the same image where it is loaded in this process.

use super::commands::Placement;
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
            let index = FunctionIndex::read(&mut memory, 0, Placement::File)?;
            let same = index.uuid().is_some_and(|id| super::hexadecimal(&id) == uuid);
            same.then_some((part, index))
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
