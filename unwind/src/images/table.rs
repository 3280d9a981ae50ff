//! The table of images.

/// How many images the table holds.
pub const MAX_IMAGES: usize = 1024;
/// How many bytes the table has for paths and build ids together.
pub const NAME_BYTES: usize = 128 * 1024;
/// How many executable ranges an image can have: one in practice, more when a linker script splits `.text`.
const MAX_CODE_RANGES: usize = 4;

/// Addresses from `start` up to `end`, exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The first address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
}

impl Range {
    /// Whether `address` lies inside.
    #[inline]
    pub const fn contains(self, address: u64) -> bool {
        self.start <= address && address < self.end
    }

    /// This range, if there is anything in it.
    pub(crate) fn if_any(self) -> Option<Self> {
        (self.end > self.start).then_some(self)
    }
}

/// What an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ImageKind {
    /// An ELF executable or library.
    Elf = 1,
    /// The kernel's vDSO: ELF, but in no file.
    Vdso = 2,
    /// Executable memory that belongs to no ELF file: code made at run time, a kernel's page.
    Anonymous = 3,
    /// A Mach-O executable or library.
    MachO = 4,
}

/// A part of a table's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    length: u32,
}

/// One loaded image. Its path and build id stand in the [`ImageTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// What it is.
    pub kind: ImageKind,
    /// From the load address to the end of the last segment; of a Mach-O image, to the end of `__TEXT`: its other
    /// segments can lie far away, behind those of other images.
    pub range: Range,
    /// What to add to an address in the file to get the one in memory.
    pub slide: u64,
    /// The index of its unwind tables, `PT_GNU_EH_FRAME`; empty if it has none.
    pub eh_frame_hdr: Range,
    /// Its section `__text`, of Mach-O: the code of its functions, without stubs. Empty if that is not known.
    pub text: Range,
    /// Its section `__unwind_info`, of Mach-O; empty if it has none.
    pub unwind_info: Range,
    /// Its section `__eh_frame`, of Mach-O; empty if it has none, or if that is not known.
    pub eh_frame: Range,
    pub(super) code: [Range; MAX_CODE_RANGES],
    pub(super) path: Span,
    pub(super) build_id: Span,
    /// Device and inode of the file, to tell a file from another at the same place.
    pub(super) file: (u64, u64),
    pub(super) generation: u32,
    /// Whether it is made for a variant of its architecture, of Mach-O: arm64e, x86_64h.
    pub variant: bool,
    /// Whether it lies in dyld's shared cache: there is no file then at its path.
    pub in_shared_cache: bool,
}

impl Image {
    pub(super) const EMPTY: Self = Self {
        kind: ImageKind::Anonymous,
        range: Range { start: 0, end: 0 },
        slide: 0,
        eh_frame_hdr: Range { start: 0, end: 0 },
        text: Range { start: 0, end: 0 },
        unwind_info: Range { start: 0, end: 0 },
        eh_frame: Range { start: 0, end: 0 },
        code: [Range { start: 0, end: 0 }; MAX_CODE_RANGES],
        path: Span { start: 0, length: 0 },
        build_id: Span { start: 0, length: 0 },
        file: (0, 0),
        generation: 0,
        variant: false,
        in_shared_cache: false,
    };

    /// The executable ranges.
    pub fn code(&self) -> impl Iterator<Item = Range> + '_ {
        self.code.iter().copied().filter(|range| range.end > range.start)
    }

    /// Whether `address` lies in an executable range.
    pub fn is_code(&self, address: u64) -> bool {
        self.code_around(address).is_some()
    }

    /// The executable range that `address` lies in.
    pub(super) fn code_around(&self, address: u64) -> Option<Range> {
        self.code.iter().copied().find(|range| range.contains(address))
    }

    /// Notes an executable range. One that does not fit extends the last: too much is called code rather than too little.
    pub(super) fn add_code(&mut self, range: Range) {
        if let Some(free) = self.code.iter_mut().find(|range| range.end <= range.start) {
            *free = range;
        } else if let Some(last) = self.code.last_mut() {
            last.end = last.end.max(range.end);
        }
    }
}

/// The loaded images, sorted by address, in storage of a fixed size (about 256 KiB): `const` constructible, so usable
/// as a static.
///
/// ```
/// use freezeframe_unwind::images::{ImageKind, ImageTable};
/// let mut images = Box::new(ImageTable::new());
/// images.refresh()?;
/// let (index, image) = images.find(u64::refresh as *const () as u64).ok_or("no image")?;
/// assert!(matches!(image.kind, ImageKind::Elf | ImageKind::MachO));
/// assert!(!images.path(image).is_empty() && images.get(index) == Some(image));
/// # trait Refresh { fn refresh(); }
/// # impl Refresh for u64 { fn refresh() {} }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ImageTable {
    pub(super) images: [Image; MAX_IMAGES],
    pub(super) count: usize,
    /// How many of the images are in their places; those behind them were added since.
    pub(super) settled: usize,
    pub(super) bytes: [u8; NAME_BYTES],
    pub(super) bytes_used: usize,
    pub(super) dropped: u32,
    pub(super) generation: u32,
    pub(super) version: u32,
    pub(super) main_stack: Range,
}

impl Default for ImageTable {
    fn default() -> Self {
        Self::new()
    }
}

impl ImageTable {
    /// An empty table.
    pub const fn new() -> Self {
        Self {
            images: [Image::EMPTY; MAX_IMAGES],
            count: 0,
            settled: 0,
            bytes: [0; NAME_BYTES],
            bytes_used: 0,
            dropped: 0,
            generation: 0,
            version: 0,
            main_stack: Range { start: 0, end: 0 },
        }
    }

    /// The images, by ascending address.
    ///
    /// # Signal safety
    /// Safe, as is every method of this type.
    #[inline]
    pub fn images(&self) -> &[Image] {
        self.images.get(..self.count).unwrap_or(&[])
    }

    /// The image at an index that [`find`](Self::find) returned.
    pub fn get(&self, index: usize) -> Option<&Image> {
        self.images().get(index)
    }

    /// The image that `address` lies in, and its index.
    #[inline]
    pub fn find(&self, address: u64) -> Option<(usize, &Image)> {
        let images = self.images();
        let index = images.partition_point(|image| image.range.start <= address).checked_sub(1)?;
        images.get(index).filter(|image| image.range.contains(address)).map(|image| (index, image))
    }

    /// Whether `address` lies in an executable range of an image.
    pub fn is_code(&self, address: u64) -> bool {
        self.code_around(address).is_some()
    }

    /// The executable range that `address` lies in.
    pub(crate) fn code_around(&self, address: u64) -> Option<Range> {
        self.find(address)?.1.code_around(address)
    }

    /// An image's path as the system gives it: bytes, mostly UTF-8; `[vdso]` for the vDSO, empty if there is none.
    pub fn path(&self, image: &Image) -> &[u8] {
        self.bytes_of(image.path)
    }

    /// An image's build id, of any length; empty if it has none.
    pub fn build_id(&self, image: &Image) -> &[u8] {
        self.bytes_of(image.build_id)
    }

    /// Changes whenever an image comes or goes: what was learned of addresses under another version may be wrong.
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// How many images did not fit.
    pub const fn dropped(&self) -> u32 {
        self.dropped
    }

    /// Where the main thread's stack lay at the last refresh; empty if that is not known.
    pub const fn main_stack(&self) -> Range {
        self.main_stack
    }

    fn bytes_of(&self, span: Span) -> &[u8] {
        let start = span.start as usize;
        self.bytes.get(start..start.saturating_add(span.length as usize)).unwrap_or(&[])
    }

    /// Keeps a copy of `bytes`; none if there is no room.
    pub(super) fn intern(&mut self, bytes: &[u8]) -> Option<Span> {
        let end = self.bytes_used.checked_add(bytes.len())?;
        self.bytes.get_mut(self.bytes_used..)?.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let span = Span { start: self.bytes_used as u32, length: bytes.len() as u32 };
        self.bytes_used = end;
        Some(span)
    }

    /// Whether it pays to start afresh: names of images that went away stay behind and take up room, or images did not
    /// fit. Names in use alone are no reason, however many they are: to read all images again would not make them fewer.
    pub(super) fn is_littered(&self) -> bool {
        let used = |image: &Image| image.path.length.saturating_add(image.build_id.length) as usize;
        let used = self.images().iter().map(used).fold(0, usize::saturating_add);
        let left_behind = self.bytes_used.saturating_sub(used);
        let is_full = self.bytes_used > self.bytes.len() / 2;
        is_full && left_behind > self.bytes.len() / 8 || self.dropped > 0
    }

    /// Forgets all images.
    pub fn clear(&mut self) {
        (self.count, self.settled, self.bytes_used, self.dropped) = (0, 0, 0, 0);
        self.version = self.version.wrapping_add(1);
    }

    pub(super) fn push(&mut self, image: Image) {
        self.version = self.version.wrapping_add(1);
        match self.images.get_mut(self.count) {
            Some(free) => {
                *free = image;
                self.count = self.count.saturating_add(1);
            }
            None => self.dropped = self.dropped.saturating_add(1),
        }
    }

    /// Drops the images of earlier generations and sorts the others by address. Nearly sorted already, so by insertion.
    pub(super) fn settle(&mut self) {
        let mut count = 0usize;
        for from in 0..self.count {
            let Some(image) = self.images.get(from).copied() else { break };
            if image.generation != self.generation {
                continue;
            }
            let mut to = count;
            while let Some(before) = to.checked_sub(1).and_then(|before| self.images.get(before)).copied()
                && before.range.start > image.range.start
            {
                if let Some(slot) = self.images.get_mut(to) {
                    *slot = before;
                }
                to = to.saturating_sub(1);
            }
            if let Some(slot) = self.images.get_mut(to) {
                *slot = image;
            }
            count = count.saturating_add(1);
        }
        if count != self.count {
            self.version = self.version.wrapping_add(1);
        }
        (self.count, self.settled) = (count, count);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::boxed::Box;

    fn image(start: u64, end: u64, generation: u32) -> Image {
        let mut image = Image { range: Range { start, end }, generation, ..Image::EMPTY };
        image.add_code(Range { start: start + 16, end });
        image
    }

    #[test]
    fn settled_images_are_sorted_and_found_at_their_edges() {
        let mut table = Box::new(ImageTable::new());
        table.generation = 1;
        for (start, generation) in [(500, 1), (100, 1), (900, 0), (300, 1), (700, 0)] {
            table.push(image(start, start + 100, generation));
        }
        table.settle();
        assert!(table.images().iter().map(|image| image.range.start).eq([100, 300, 500]));
        let index = |address| table.find(address).map(|(index, _)| index);
        assert_eq!((index(99), index(100), index(199), index(200)), (None, Some(0), Some(0), None));
        assert_eq!((index(300), index(599), index(600), index(950)), (Some(1), Some(2), None, None));
        assert!(!table.is_code(315) && table.is_code(316) && !table.is_code(400));
    }

    #[test]
    fn a_full_table_counts_what_it_drops() {
        let mut table = Box::new(ImageTable::new());
        (0..MAX_IMAGES as u64 + 3).for_each(|n| table.push(image(n * 100, n * 100 + 50, 0)));
        assert_eq!((table.images().len(), table.dropped()), (MAX_IMAGES, 3));
        assert!(table.intern(&[0; NAME_BYTES - 1]).is_some());
        assert_eq!(table.intern(b"ab"), None);
        assert!(table.intern(b"a").is_some());
    }

    #[test]
    fn only_names_that_nobody_bears_are_litter() {
        let mut table = Box::new(ImageTable::new());
        for n in 0..800 {
            let path = table.intern(&[b'n'; 100]).unwrap();
            table.push(Image { path, ..image(n * 100, n * 100 + 50, u32::from(n < 300)) });
        }
        assert!(table.bytes_used > NAME_BYTES / 2 && !table.is_littered(), "all are in use");
        table.generation = 1;
        table.settle();
        assert!(table.images().len() == 300 && table.is_littered(), "most have gone");
        table.clear();
        assert!(!table.is_littered());
    }

    #[test]
    fn more_code_ranges_than_fit_stay_code() {
        let mut many = Image::EMPTY;
        (0..6).for_each(|n| many.add_code(Range { start: n * 100, end: n * 100 + 10 }));
        assert!((0..6).all(|n| many.is_code(n * 100 + 5)));
        assert!(!many.is_code(15));
    }
}
