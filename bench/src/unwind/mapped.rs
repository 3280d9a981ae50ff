//! What is mapped of the images, lent as it is, and where in it their unwind tables lie.

use freezeframe_unwind::images::{Image, ImageTable, Range};
use freezeframe_unwind::memory::Memory;
use gimli::{BaseAddresses, EhFrameHdr, LittleEndian, ParsedEhFrameHdr, Pointer};
use std::cell::Cell;

/// The sections of an image as gimli reads them.
pub(super) type Bytes = gimli::EndianSlice<'static, LittleEndian>;

/// The read-only parts of all images, by ascending address.
#[derive(Debug)]
pub(super) struct Mapped {
    parts: Vec<&'static [u8]>,
    /// Where the last read was, and most often the next one is.
    last: Cell<&'static [u8]>,
}

impl Mapped {
    /// What this process has mapped. Nothing is unloaded while a benchmark runs.
    pub(super) fn read(images: &ImageTable) -> std::io::Result<Self> {
        let mut ranges: Vec<Range> = Vec::new();
        for line in std::fs::read_to_string("/proc/self/maps")?.lines() {
            let Some(range) = read_only(line).filter(|range| images.find(range.start).is_some()) else {
                continue;
            };
            match ranges.last_mut().filter(|last| last.end == range.start) {
                Some(last) => last.end = range.end,
                None => ranges.push(range),
            }
        }
        let part = |range: Range| {
            // SAFETY: mapped from the first address to the last, and never written to or unmapped.
            unsafe {
                std::slice::from_raw_parts(range.start as *const u8, (range.end - range.start) as usize)
            }
        };
        Ok(Self { parts: ranges.into_iter().map(part).collect(), last: Cell::new(&[]) })
    }

    #[inline]
    fn from(&self, address: u64) -> Option<&'static [u8]> {
        from(self.last.get(), address).or_else(|| self.elsewhere(address))
    }

    #[cold]
    fn elsewhere(&self, address: u64) -> Option<&'static [u8]> {
        let part = self.parts.iter().find(|part| from(part, address).is_some())?;
        self.last.set(part);
        from(part, address)
    }

    /// The unwind tables of every image that has some.
    pub(super) fn sections(&self, images: &ImageTable) -> Vec<Sections> {
        images.images().iter().filter_map(|image| self.sections_of(image)).collect()
    }

    fn sections_of(&self, image: &Image) -> Option<Sections> {
        let start = image.eh_frame_hdr.start;
        let size = (image.eh_frame_hdr.end - start) as usize;
        let header = Bytes::new(self.from(start)?.get(..size)?, LittleEndian);
        let bases = BaseAddresses::default().set_eh_frame_hdr(start);
        let parsed = EhFrameHdr::from(header).parse(&bases, 8).ok()?;
        let Pointer::Direct(address) = parsed.eh_frame_ptr() else { return None };
        let eh_frame = Bytes::new(self.from(address)?, LittleEndian);
        let bases = bases.set_eh_frame(address);
        Some(Sections {
            image: image.range,
            header,
            header_at: start,
            parsed,
            eh_frame,
            eh_frame_at: address,
            bases,
        })
    }
}

/// The bytes of `part` from `address` on.
#[inline]
fn from(part: &'static [u8], address: u64) -> Option<&'static [u8]> {
    let offset = address.wrapping_sub(part.as_ptr() as u64);
    part.get(usize::try_from(offset).ok()?..).filter(|rest| !rest.is_empty())
}

/// The range of a line of `/proc/self/maps`, if it can be read and not written to.
fn read_only(line: &str) -> Option<Range> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    rest.starts_with("r-").then_some(Range { start: number(start)?, end: number(end)? })
}

impl Memory for &Mapped {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        let bytes = self.from(address).unwrap_or(&[]);
        out.iter_mut().zip(bytes).map(|(to, from)| *to = *from).count()
    }

    #[inline]
    fn read_u64(&mut self, address: u64) -> Option<u64> {
        self.from(address)?.first_chunk().map(|word| u64::from_le_bytes(*word))
    }

    #[inline]
    fn bytes(&self, address: u64) -> Option<&[u8]> {
        self.from(address)
    }
}

/// An image's unwind tables, found and parsed ahead of all walks. `.eh_frame` is longer than it really is: a loaded image
/// does not say where it ends.
#[derive(Clone, Debug)]
pub(super) struct Sections {
    pub(super) image: Range,
    pub(super) header: Bytes,
    pub(super) header_at: u64,
    pub(super) parsed: ParsedEhFrameHdr<Bytes>,
    pub(super) eh_frame: Bytes,
    pub(super) eh_frame_at: u64,
    pub(super) bases: BaseAddresses,
}
