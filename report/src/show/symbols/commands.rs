//! Where a Mach-O image keeps what it knows of its functions.
//!
//! ```text
//!                 file                          memory
//! __TEXT          header, commands, code        header, commands, code
//! __LINKEDIT      symbols, starts, strings      symbols, starts, strings: at its own address, which need not lie behind
//!                                               __TEXT (in the shared cache it lies behind all of them)
//! ```
//!
//! The commands give offsets in the file; of an image that is loaded, `__LINKEDIT` says where these have gone.

use freezeframe_unwind::memory::Memory;
use object::LittleEndian as Little;
use object::macho::{self, MachHeader64, SegmentCommand64};
use object::read::macho::{LoadCommandVariant, MachHeader, Section, Segment};
use std::ops::Range;

/// How the bytes of an image lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// As the loader puts them: each segment at an address of its own.
    Loaded,
    /// As in the file.
    File,
}

/// More than any linker writes: the bound on the work for a hostile file.
const MAX_COMMAND_BYTES: u32 = 1 << 16;

/// A part of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) address: u64,
    pub(super) size: u64,
}

/// What the load commands say.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// The address of the header that the image was linked for.
    pub(super) linked_at: u64,
    pub(super) uuid: Option<[u8; 16]>,
    /// Sections with instructions, sorted, counted from the header.
    pub(super) code: Vec<Range<u32>>,
    /// Entries of 16 bytes.
    pub(super) symbols: Extent,
    pub(super) strings: Extent,
    /// `LC_FUNCTION_STARTS`.
    pub(super) starts: Extent,
}

impl Tables {
    /// None if there is no linked image for 64 bits at `address`.
    pub(super) fn read<M: Memory>(memory: &mut M, address: u64, placement: Placement) -> Option<Self> {
        let bytes = read_commands(memory, address)?;
        let header = MachHeader64::<Little>::parse(&*bytes, 0).ok()?;
        let mut commands = header.load_commands(Little, &*bytes, 0).ok()?;
        let (mut tables, mut segments, mut symbols, mut starts) =
            (Self::default(), Segments::default(), None, None);
        while let Ok(Some(command)) = commands.next() {
            match command.variant() {
                Ok(LoadCommandVariant::Segment64(segment, sections)) => segments.add(segment, sections),
                Ok(LoadCommandVariant::Symtab(table)) => symbols = Some(table),
                Ok(LoadCommandVariant::Uuid(id)) => tables.uuid = Some(id.uuid),
                Ok(LoadCommandVariant::LinkeditData(data)) if command.cmd() == macho::LC_FUNCTION_STARTS => {
                    starts = Some(data);
                }
                _ => {}
            }
        }
        tables.linked_at = segments.text?;
        tables.code = segments.code();
        let place = |offset: u32, size: u64| match placement {
            Placement::File => Some(Extent { address: address.checked_add(offset.into())?, size }),
            Placement::Loaded => segments.place(address, offset.into(), size),
        };
        if let Some(table) = symbols {
            let size = u64::from(table.nsyms.get(Little)) * NLIST_BYTES as u64;
            tables.symbols = place(table.symoff.get(Little), size).unwrap_or_default();
            tables.strings =
                place(table.stroff.get(Little), table.strsize.get(Little).into()).unwrap_or_default();
        }
        if let Some(data) = starts {
            let place = place(data.dataoff.get(Little), data.datasize.get(Little).into());
            tables.starts = place.unwrap_or_default();
        }
        Some(tables)
    }
}

/// Bytes of an entry of the symbol table.
pub(super) const NLIST_BYTES: usize = size_of::<macho::Nlist64<Little>>();

/// The header and the load commands.
fn read_commands<M: Memory>(memory: &mut M, address: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; size_of::<MachHeader64<Little>>()];
    if memory.read(address, &mut bytes) < bytes.len() {
        return None;
    }
    let header = MachHeader64::<Little>::parse(&*bytes, 0).ok()?;
    let size = header.sizeofcmds(Little);
    let known = matches!(header.cputype(Little), macho::CPU_TYPE_ARM64 | macho::CPU_TYPE_X86_64);
    if header.endian().is_err()
        || !known
        || header.filetype(Little) == macho::MH_OBJECT
        || size > MAX_COMMAND_BYTES
    {
        return None;
    }
    let behind = bytes.len();
    bytes.resize(behind + size as usize, 0);
    let read = memory.read(address.checked_add(behind as u64)?, bytes.get_mut(behind..)?);
    bytes.truncate(behind + read);
    Some(bytes)
}

/// What the segments say, in addresses that the image was linked for.
#[derive(Default)]
struct Segments {
    text: Option<u64>,
    /// Where `__LINKEDIT` goes, where it lies in the file, and its size in memory.
    linkedit: Option<(u64, u64, u64)>,
    code: Vec<(u64, u64)>,
}

impl Segments {
    fn add(&mut self, segment: &SegmentCommand64<Little>, sections: &[u8]) {
        let (address, size) = (segment.vmaddr.get(Little), segment.vmsize.get(Little));
        match segment.name() {
            b"__TEXT" => self.text = self.text.or(Some(address)),
            b"__LINKEDIT" => self.linkedit = Some((address, segment.fileoff.get(Little), size)),
            _ => {}
        }
        let instructions = macho::S_ATTR_PURE_INSTRUCTIONS | macho::S_ATTR_SOME_INSTRUCTIONS;
        let sections = segment.sections(Little, sections).unwrap_or(&[]);
        let code = sections.iter().filter(|section| section.flags(Little) & instructions != 0);
        self.code.extend(code.map(|section| (section.addr.get(Little), section.size.get(Little))));
    }

    fn code(&self) -> Vec<Range<u32>> {
        let Some(text) = self.text else { return Vec::new() };
        let in_image = |(address, size): &(u64, u64)| {
            let start = address.checked_sub(text)?;
            Some(u32::try_from(start).ok()?..u32::try_from(start.checked_add(*size)?).ok()?)
        };
        let mut code: Vec<Range<u32>> = self.code.iter().filter_map(in_image).collect();
        code.sort_by_key(|range| (range.start, range.end));
        code
    }

    /// Where what lies at `offset` of the file is in memory, as much of it as `__LINKEDIT` has.
    fn place(&self, loaded_at: u64, offset: u64, size: u64) -> Option<Extent> {
        let (start, in_file, bytes) = self.linkedit?;
        let behind = offset.checked_sub(in_file)?;
        let size = size.min(bytes.checked_sub(behind)?);
        let slide = loaded_at.wrapping_sub(self.text?);
        Some(Extent { address: start.wrapping_add(slide).checked_add(behind)?, size })
    }
}
