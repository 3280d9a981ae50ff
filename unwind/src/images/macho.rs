//! What a Mach-O image says of itself: its segments, its UUID and where its unwind tables are, read from memory or from
//! a file's bytes, which lie alike up to the end of `__TEXT`.
//!
//! ```text
//! load address ─▶ header │ load command │ load command │ … │ code │ __unwind_info │ __eh_frame
//!                 └──────────────────── __TEXT ────────────────────────────────────────────────┘
//! ```
//!
//! Sources: `mach-o/loader.h`, `mach-o/fat.h`. 64 bits, little-endian: arm64, arm64e, x86_64.

use super::build_id::BuildId;
use super::table::{Image, Range};
use crate::memory::{Cursor, CutShort, Memory, Window};
use freezeframe_arch::Architecture;

const MAGIC: u32 = 0xfeed_facf;
const CPU_X86_64: u32 = 0x0100_0007;
const CPU_ARM64: u32 = 0x0100_000c;
/// arm64e, whose return addresses are signed.
const SUBTYPE_ARM64E: u32 = 2;
/// x86_64h, for processors since Haswell.
const SUBTYPE_X86_64H: u32 = 8;
/// The rest of a subtype says what a processor must be able to.
const SUBTYPE: u32 = 0x00ff_ffff;
/// A file before it is linked: its sections have no addresses yet.
const MH_OBJECT: u32 = 1;
const MH_DYLIB_IN_CACHE: u32 = 1 << 31;
const LC_SEGMENT_64: u32 = 0x19;
const LC_UUID: u32 = 0x1b;
const VM_PROT_EXECUTE: u32 = 4;

const HEADER: u64 = 32;
const SEGMENT: u64 = 72;
const SECTION: u64 = 80;
const UUID: usize = 16;
/// More than any linker writes: the bound on the work for a hostile file.
const MAX_COMMAND_BYTES: u32 = 1 << 16;

const FAT_MAGIC: [u8; 4] = [0xca, 0xfe, 0xba, 0xbe];
const MAX_FAT_PARTS: u32 = 32;
const FAT_PART: usize = 20;

/// Load commands are read through this.
type Commands = Window<512>;

type Name = [u8; 16];
const TEXT: Name = *b"__TEXT\0\0\0\0\0\0\0\0\0\0";
const TEXT_SECTION: Name = *b"__text\0\0\0\0\0\0\0\0\0\0";
const UNWIND_INFO: Name = *b"__unwind_info\0\0\0";
const EH_FRAME: Name = *b"__eh_frame\0\0\0\0\0\0";

/// Whether a Mach-O file that can be walked begins at `address`.
pub(super) fn begins_at<M: Memory>(memory: &mut M, address: u64) -> bool {
    let mut magic = [0; 4];
    memory.read(address, &mut magic) == magic.len() && u32::from_le_bytes(magic) == MAGIC
}

/// Fills in the range, slide, code and tables of the image whose header lies at `load_address`, and returns its UUID.
/// None if what is there is no Mach-O image, or if not all of it can be read: what is known by half is never asked again.
pub(super) fn read<M: Memory>(memory: &mut M, load_address: u64, image: &mut Image) -> Option<BuildId> {
    let window = &mut Commands::new();
    let Header { commands, variant, flags } =
        header(&mut at(memory, window, load_address, HEADER), load_address)?;
    image.variant = variant;
    image.in_shared_cache = flags & MH_DYLIB_IN_CACHE != 0;

    let text = find_text(memory, window, commands).ok()??;
    image.slide = load_address.wrapping_sub(text.start);
    let slid = |range: Range| {
        let start = range.start.wrapping_add(image.slide);
        Range { start, end: start.saturating_add(range.end.wrapping_sub(range.start)) }
    };
    image.range = slid(text).if_any()?;

    let mut uuid = BuildId::NONE;
    let mut found = *image;
    let whole = for_each_command(memory, window, commands, |memory, window, command| match command.kind {
        LC_UUID => {
            let out = uuid.bytes.get_mut(..UUID).unwrap_or(&mut []);
            uuid.length = memory.read(command.fields, out);
            if uuid.length == UUID { Ok(()) } else { Err(CutShort) }
        }
        LC_SEGMENT_64 => {
            let segment = Segment::read(&mut command.cursor(memory, window))?;
            if segment.protection & VM_PROT_EXECUTE != 0 {
                found.add_code(slid(segment.addresses));
            }
            let sections = u64::from(segment.sections).min(command.left(SEGMENT) / SECTION);
            for index in 0..sections {
                let address =
                    command.start.saturating_add(SEGMENT.saturating_add(index.saturating_mul(SECTION)));
                let (name, segment, addresses) = section(&mut at(memory, window, address, SECTION))?;
                let inside = text.start <= addresses.start && addresses.end <= text.end;
                match name {
                    TEXT_SECTION if segment == TEXT && inside => found.text = slid(addresses),
                    UNWIND_INFO if segment == TEXT && inside => found.unwind_info = slid(addresses),
                    EH_FRAME if segment == TEXT && inside => found.eh_frame = slid(addresses),
                    _ => {}
                }
            }
            Ok(())
        }
        _ => Ok(()),
    });
    whole.ok()?;
    *image = found;
    Some(uuid)
}

/// The bytes of a fat file that hold the image for an architecture; of a file that is not fat, all of them. For files,
/// not for loaded memory: what is loaded is one image.
///
/// ```
/// use freezeframe_arch::Architecture;
/// let thin = [0xcf, 0xfa, 0xed, 0xfe];
/// assert_eq!(freezeframe_unwind::images::part_of_fat_file(&thin, Architecture::Arm64), Some(&thin[..]));
/// ```
///
/// # Signal safety
/// Safe.
pub fn part_of_fat_file(file: &[u8], architecture: Architecture) -> Option<&[u8]> {
    let Some(rest) = file.strip_prefix(&FAT_MAGIC) else { return Some(file) };
    let wanted = match architecture {
        Architecture::X86_64 => CPU_X86_64,
        Architecture::Arm64 => CPU_ARM64,
    };
    // Big-endian, whatever the parts are.
    let word = |bytes: &[u8], at: usize| bytes.get(at..)?.first_chunk().map(|b| u32::from_be_bytes(*b));
    let count = word(rest, 0)?.min(MAX_FAT_PARTS) as usize;
    let parts = rest.get(4..)?.chunks_exact(FAT_PART).take(count);
    let mut parts = parts.filter(|part| word(part, 0) == Some(wanted));
    let part = parts.next()?;
    let (offset, size) = (word(part, 8)? as usize, word(part, 12)? as usize);
    file.get(offset..offset.checked_add(size)?)
}

struct Header {
    /// Where the load commands lie.
    commands: Range,
    variant: bool,
    flags: u32,
}

fn header(header: &mut Cursor<'_>, load_address: u64) -> Option<Header> {
    let mut word = || header.u32().ok();
    let [magic, cpu, subtype, file_type, _count, size, flags] =
        [word()?, word()?, word()?, word()?, word()?, word()?, word()?];
    let variant = match cpu {
        CPU_X86_64 => SUBTYPE_X86_64H,
        CPU_ARM64 => SUBTYPE_ARM64E,
        _ => return None,
    };
    if magic != MAGIC || file_type == MH_OBJECT || size > MAX_COMMAND_BYTES {
        return None;
    }
    let start = load_address.checked_add(HEADER)?;
    let commands = Range { start, end: start.checked_add(size.into())? };
    Some(Header { commands, variant: subtype & SUBTYPE == variant, flags })
}

/// The addresses that the segment with the header was linked at.
fn find_text<M: Memory>(
    memory: &mut M,
    window: &mut Commands,
    commands: Range,
) -> Result<Option<Range>, CutShort> {
    let mut text = None;
    for_each_command(memory, window, commands, |memory, window, command| {
        if command.kind == LC_SEGMENT_64 {
            let segment = Segment::read(&mut command.cursor(memory, window))?;
            text = text.or((segment.name == TEXT).then_some(segment.addresses));
        }
        Ok(())
    })?;
    Ok(text)
}

#[derive(Clone, Copy)]
struct Command {
    kind: u32,
    start: u64,
    /// The address behind kind and size.
    fields: u64,
    end: u64,
}

impl Command {
    fn cursor<'a, M: Memory>(&self, memory: &'a mut M, window: &'a mut Commands) -> Cursor<'a> {
        let wanted = SEGMENT.min(self.end.saturating_sub(self.fields)) as usize;
        Cursor::new(self.fields, window.at(memory, self.fields, wanted), self.end)
    }

    /// How many bytes the command has beyond its first `count`.
    fn left(&self, count: u64) -> u64 {
        self.end.saturating_sub(self.start).saturating_sub(count)
    }
}

/// The commands follow each other; each has at least eight bytes, which bounds the loop. The first that is none ends it.
fn for_each_command<M: Memory>(
    memory: &mut M,
    window: &mut Commands,
    commands: Range,
    mut visit: impl FnMut(&mut M, &mut Commands, &Command) -> Result<(), CutShort>,
) -> Result<(), CutShort> {
    let mut start = commands.start;
    while start < commands.end {
        let mut cursor = at(memory, window, start, 8);
        let (kind, size) = (cursor.u32()?, cursor.u32()?);
        let (fields, end) = (cursor.address(), start.saturating_add(size.into()));
        if size < 8 || end > commands.end {
            break;
        }
        visit(memory, window, &Command { kind, start, fields, end })?;
        start = end;
    }
    Ok(())
}

struct Segment {
    name: Name,
    /// As linked.
    addresses: Range,
    protection: u32,
    sections: u32,
}

impl Segment {
    /// Reads the fields behind kind and size.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, CutShort> {
        let (name, start, size) = (name(cursor)?, cursor.u64()?, cursor.u64()?);
        cursor.skip(16)?;
        let (_maximal, protection, sections) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
        let end = start.checked_add(size).ok_or(CutShort)?;
        Ok(Self { name, addresses: Range { start, end }, protection, sections })
    }
}

/// The names of a section and of its segment, and the addresses it was linked at.
fn section(cursor: &mut Cursor<'_>) -> Result<(Name, Name, Range), CutShort> {
    let (name, segment) = (name(cursor)?, name(cursor)?);
    let (start, size) = (cursor.u64()?, cursor.u64()?);
    Ok((name, segment, Range { start, end: start.checked_add(size).ok_or(CutShort)? }))
}

fn name(cursor: &mut Cursor<'_>) -> Result<Name, CutShort> {
    let halves = [cursor.u64()?, cursor.u64()?].map(u64::to_le_bytes);
    Ok(*halves.as_flattened().first_chunk().ok_or(CutShort)?)
}

/// The `size` bytes at `address`.
fn at<'a, M: Memory>(memory: &'a mut M, window: &'a mut Commands, address: u64, size: u64) -> Cursor<'a> {
    Cursor::new(address, window.at(memory, address, size as usize), address.saturating_add(size))
}

#[cfg(test)]
mod tests;
