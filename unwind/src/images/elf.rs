//! What a loaded ELF image says of itself: its segments and its build id, read from memory.
//!
//! Source: the System V ABI's ELF chapters, `include/uapi/linux/elf.h`.

use super::build_id::{BuildId, MAX_BUILD_ID};
use super::table::{Image, Range};
use crate::memory::Memory;
use core::mem::offset_of;
use static_assertions::const_assert_eq;

#[repr(C)]
struct Header {
    e_ident: [u8; 16],
    e_type: u16,
    e_machine: u16,
    e_version: u32,
    e_entry: u64,
    e_phoff: u64,
    e_shoff: u64,
    e_flags: u32,
    e_ehsize: u16,
    e_phentsize: u16,
    e_phnum: u16,
}

#[repr(C)]
struct ProgramHeader {
    p_type: u32,
    p_flags: u32,
    p_offset: u64,
    p_vaddr: u64,
    p_paddr: u64,
    p_filesz: u64,
    p_memsz: u64,
    p_align: u64,
}

const_assert_eq!(offset_of!(Header, e_phnum), 56);
const_assert_eq!(size_of::<ProgramHeader>(), 56);

/// `\x7fELF`, 64 bits, little-endian.
const MAGIC: [u8; 6] = [0x7f, b'E', b'L', b'F', 2, 1];
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const PF_X: u32 = 1;
const NT_GNU_BUILD_ID: u32 = 3;
const PAGE: u64 = 4096;
/// More program headers than any linker writes: the bound on the work for a hostile file.
const MAX_PROGRAM_HEADERS: u16 = 128;
/// Whether an ELF file that can be walked begins at `address`.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn begins_at<M: Memory>(memory: &mut M, address: u64) -> bool {
    let mut magic = [0; MAGIC.len()];
    memory.read(address, &mut magic) == MAGIC.len() && magic == MAGIC
}

/// Fills in the range, slide and code of the image whose file header lies at `load_address`, and returns its build id.
/// None if what is there is no loaded ELF image.
pub(super) fn read<M: Memory>(memory: &mut M, load_address: u64, image: &mut Image) -> Option<BuildId> {
    let mut header = [0; size_of::<Header>()];
    if memory.read(load_address, &mut header) != header.len() || !header.starts_with(&MAGIC) {
        return None;
    }
    let table = load_address.checked_add(word(&header, offset_of!(Header, e_phoff))?)?;
    let size = half(&header, offset_of!(Header, e_phentsize))?;
    let number = half(&header, offset_of!(Header, e_phnum))?.min(MAX_PROGRAM_HEADERS);
    if usize::from(size) < size_of::<ProgramHeader>() {
        return None;
    }
    let headers = ProgramHeaders { table, size, number };

    let mut extent: Option<Range> = None;
    headers.for_each(memory, |_, header| {
        if header.p_type == PT_LOAD {
            let end = header.p_vaddr.saturating_add(header.p_memsz);
            let (low, high) =
                extent.map_or((header.p_vaddr, end), |e| (e.start.min(header.p_vaddr), e.end.max(end)));
            extent = Some(Range { start: low, end: high });
        }
    });
    let extent = extent?;
    // The first segment begins a page, and the file header lies at its start.
    let slide = load_address.wrapping_sub(extent.start & !(PAGE - 1));
    image.slide = slide;
    image.range = Range { start: load_address, end: slide.wrapping_add(extent.end) };
    if image.range.end <= load_address {
        return None;
    }

    let mut build_id = BuildId::NONE;
    headers.for_each(memory, |memory, header| {
        let start = slide.wrapping_add(header.p_vaddr);
        if header.p_type == PT_LOAD && header.p_flags & PF_X != 0 {
            image.add_code(Range { start, end: start.saturating_add(header.p_memsz) });
        }
        if header.p_type == PT_GNU_EH_FRAME {
            image.eh_frame_hdr = Range { start, end: start.saturating_add(header.p_memsz) };
        }
        if header.p_type == PT_NOTE && build_id.length == 0 {
            find_build_id(memory, start, header.p_memsz, header.p_align, &mut build_id);
        }
    });
    Some(build_id)
}

struct ProgramHeaders {
    table: u64,
    size: u16,
    number: u16,
}

impl ProgramHeaders {
    fn for_each<M: Memory>(&self, memory: &mut M, mut visit: impl FnMut(&mut M, &ProgramHeader)) {
        for index in 0..u64::from(self.number) {
            let address = self.table.saturating_add(index.saturating_mul(self.size.into()));
            let mut bytes = [0; size_of::<ProgramHeader>()];
            if memory.read(address, &mut bytes) != bytes.len() {
                return;
            }
            let field = |offset| word(&bytes, offset).unwrap_or(0);
            let header = ProgramHeader {
                p_type: field(offset_of!(ProgramHeader, p_type)) as u32,
                p_flags: (field(offset_of!(ProgramHeader, p_type)) >> 32) as u32,
                p_offset: field(offset_of!(ProgramHeader, p_offset)),
                p_vaddr: field(offset_of!(ProgramHeader, p_vaddr)),
                p_paddr: field(offset_of!(ProgramHeader, p_paddr)),
                p_filesz: field(offset_of!(ProgramHeader, p_filesz)),
                p_memsz: field(offset_of!(ProgramHeader, p_memsz)),
                p_align: field(offset_of!(ProgramHeader, p_align)),
            };
            visit(memory, &header);
        }
    }
}

/// Looks through a segment of notes: `{ name size, description size, type } name description`, each padded.
fn find_build_id<M: Memory>(memory: &mut M, start: u64, size: u64, align: u64, build_id: &mut BuildId) {
    let align = if align == 8 { 8 } else { 4 };
    let end = start.saturating_add(size.min(PAGE));
    let padded = |length: u32| u64::from(length).next_multiple_of(align);
    let mut at = start;
    // Each note takes at least its header, so the loop is bounded by the page.
    while at.saturating_add(12) <= end {
        let mut header = [0; 16];
        if memory.read(at, &mut header) != header.len() {
            return;
        }
        let field =
            |n: usize| header.get(n..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b));
        let (name_size, size, kind) = (field(0), field(4), field(8));
        let description = at.saturating_add(12).saturating_add(padded(name_size));
        if kind == NT_GNU_BUILD_ID && name_size == 4 && header.ends_with(b"GNU\0") {
            let length = (size as usize).min(MAX_BUILD_ID);
            let out = build_id.bytes.get_mut(..length).unwrap_or(&mut []);
            build_id.length = memory.read(description, out);
            return;
        }
        at = description.saturating_add(padded(size));
    }
}

fn word(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().map(|b| u64::from_le_bytes(*b))
}

fn half(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().map(|b| u16::from_le_bytes(*b))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::memory::SliceMemory;
    use std::vec::Vec;

    /// An image with a header, `segments` of `(type, flags, vaddr, memsz)` and two notes at 0x200, a build id second.
    fn image_bytes(segments: &[(u32, u32, u64, u64)]) -> Vec<u8> {
        let mut bytes = std::vec![0; 0x400];
        bytes[..6].copy_from_slice(&MAGIC);
        bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
        bytes[54..56].copy_from_slice(&56u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&(segments.len() as u16).to_le_bytes());
        for (n, (kind, flags, vaddr, memsz)) in segments.iter().enumerate() {
            let at = 64 + n * 56;
            bytes[at..at + 4].copy_from_slice(&kind.to_le_bytes());
            bytes[at + 4..at + 8].copy_from_slice(&flags.to_le_bytes());
            bytes[at + 16..at + 24].copy_from_slice(&vaddr.to_le_bytes());
            bytes[at + 40..at + 48].copy_from_slice(&memsz.to_le_bytes());
        }
        let notes =
            [4u32, 5, 1, u32::from_le_bytes(*b"GNU\0"), 0, 0, 4, 8, 3, u32::from_le_bytes(*b"GNU\0"), 7, 9];
        let notes: Vec<u8> = notes.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes[0x200..0x200 + notes.len()].copy_from_slice(&notes);
        bytes
    }

    fn read_at(base: u64, bytes: &[u8]) -> Option<(Image, Vec<u8>)> {
        let mut image = Image::EMPTY;
        let id = read(&mut SliceMemory::new(base, bytes), base, &mut image)?;
        Some((image, id.bytes().to_vec()))
    }

    #[test]
    fn segments_give_the_slide_the_range_and_the_code() {
        let bytes = image_bytes(&[
            (PT_LOAD, 4, 0x40_0000, 0x1000),
            (PT_NOTE, 4, 0x40_0200, 48),
            (PT_LOAD, 5, 0x40_1000, 0x2345),
            (PT_LOAD, 6, 0x40_5000, 0x10),
            (PT_GNU_EH_FRAME, 4, 0x40_0300, 0x44),
        ]);
        let (image, id) = read_at(0x7f00_0000_0000, &bytes).unwrap();
        assert_eq!(image.slide, 0x7f00_0000_0000 - 0x40_0000);
        assert_eq!(image.range, Range { start: 0x7f00_0000_0000, end: 0x7f00_0000_5010 });
        let code = Range { start: 0x7f00_0000_1000, end: 0x7f00_0000_3345 };
        assert!(image.code().eq([code]));
        let tables = Range { start: 0x7f00_0000_0300, end: 0x7f00_0000_0344 };
        assert_eq!(image.eh_frame_hdr, tables);
        assert_eq!(id, [7, 0, 0, 0, 9, 0, 0, 0], "the second note, behind one with a padded description");
    }

    #[test]
    fn hostile_headers_end_in_none_or_in_less() {
        assert!(read_at(0x1000, b"\x7fELF\x02\x01").is_none());
        assert!(read_at(0x1000, &image_bytes(&[])).is_none(), "no segment to load");
        let wraps = image_bytes(&[(PT_LOAD, 5, 0, u64::MAX)]);
        assert!(read_at(0x1000, &wraps).is_none());
        let mut many = image_bytes(&[(PT_LOAD, 5, 0, 0x1000)]);
        many[56..58].copy_from_slice(&u16::MAX.to_le_bytes());
        assert!(read_at(0x1000, &many).is_some(), "as many headers as can be read");
        many[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(read_at(0x1000, &many).is_none());
        let mut note = image_bytes(&[(PT_LOAD, 4, 0, 0x1000), (PT_NOTE, 4, 0x200, u64::MAX)]);
        note[0x200..0x208].copy_from_slice(&[255; 8]);
        assert_eq!(read_at(0x1000, &note).unwrap().1, [], "sizes that overflow");
    }
}
