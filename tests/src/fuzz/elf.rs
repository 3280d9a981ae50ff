//! Arbitrary ELF files: what the table of images says of one is what the `object` crate says, and the functions that
//! frames are named by are those of its symbol tables.

use super::scratch::with_file;
use super::source::Source;
use freezeframe_unwind::images::{ImageTable, Range};
use freezeframe_unwind::memory::SliceMemory;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian, Object, ObjectSymbol};
use std::cell::RefCell;

/// How many program headers are read, and how many executable ranges are kept apart.
const HEADERS: usize = 128;
const CODE_RANGES: usize = 4;
const LOADED: u64 = 0x7f00_0000_0000;

thread_local! {
    static IMAGES: RefCell<Box<ImageTable>> = RefCell::new(Box::new(ImageTable::new()));
}

/// The bytes are a file; its end says what is looked up.
pub fn elf(bytes: &[u8]) {
    let model = Model::read(bytes);
    IMAGES.with_borrow_mut(|images| {
        images.clear();
        let mut memory = SliceMemory::new(LOADED, bytes);
        let added = images.add(&mut memory, LOADED, b"an image");
        let Some(range) = added else {
            return assert!(bytes.starts_with(&[0xcf, 0xfa, 0xed, 0xfe]) || model.is_none(), "{model:x?}");
        };
        let image = images.images()[0];
        assert_eq!(image.range, range);
        assert!(range.start == LOADED && range.end > LOADED);
        assert!(images.build_id(&image).len() <= 64);
        if let Some(model) = model {
            assert_eq!(
                (range, image.slide, image.eh_frame_hdr),
                (model.range, model.slide, model.eh_frame_hdr)
            );
            for code in model.code.iter().filter(|code| code.end > code.start) {
                // As a whole, if there are more of them than are kept apart.
                assert!(model.code.len() > CODE_RANGES || image.code().any(|range| range == *code));
            }
        }
    });
    name_functions(bytes);
}

/// What a loaded image has, by object's reader of the file's headers.
#[derive(Debug)]
struct Model {
    range: Range,
    slide: u64,
    code: Vec<Range>,
    eh_frame_hdr: Range,
}

impl Model {
    /// None if object cannot read the headers, or they are none of an image that could be loaded.
    fn read(bytes: &[u8]) -> Option<Self> {
        let header =
            FileHeader64::<LittleEndian>::parse(bytes).ok().filter(|header| header.is_little_endian())?;
        // More than that: a section's header has the count, for who links. Nobody loads so many.
        if header.e_phnum(LittleEndian) == elf::PN_XNUM {
            return None;
        }
        let endian = LittleEndian;
        let headers = header.program_headers(endian, bytes).ok()?;
        let headers = headers.get(..HEADERS).unwrap_or(headers);
        let of = |kind| headers.iter().filter(move |header| header.p_type(endian) == kind);
        let ends =
            |h: &elf::ProgramHeader64<LittleEndian>| h.p_vaddr(endian).saturating_add(h.p_memsz(endian));
        let first = of(elf::PT_LOAD).map(|header| header.p_vaddr(endian)).min()?;
        let slide = LOADED.wrapping_sub(first & !0xfff);
        let end = slide.wrapping_add(of(elf::PT_LOAD).map(ends).max()?);
        let range = |header: &elf::ProgramHeader64<LittleEndian>| {
            let start = slide.wrapping_add(header.p_vaddr(endian));
            Range { start, end: start.saturating_add(header.p_memsz(endian)) }
        };
        let code = of(elf::PT_LOAD).filter(|header| header.p_flags(endian) & elf::PF_X != 0).map(range);
        (end > LOADED).then(|| Self {
            range: Range { start: LOADED, end },
            slide,
            code: code.collect(),
            eh_frame_hdr: of(elf::PT_GNU_EH_FRAME).next_back().map(range).unwrap_or_default(),
        })
    }
}

/// Frames at the starts of functions, and elsewhere, are named out of the file.
fn name_functions(bytes: &[u8]) {
    let Ok(object) = object::File::parse(bytes) else { return };
    let Ok(Some(build_id)) = object.build_id() else { return };
    let symbols: Vec<_> = object.symbols().chain(object.dynamic_symbols()).collect();
    let mut addresses: Vec<u64> = symbols.iter().take(64).map(|symbol| symbol.address()).collect();
    let mut end = Source(bytes.get(bytes.len().saturating_sub(32)..).unwrap_or(&[]));
    addresses.extend([end.u64(), end.u64(), end.u64(), end.u64(), 0, u64::MAX]);
    let hexadecimal: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let names = with_file("elf", bytes, |path| super::macho::names(path, "elf", hexadecimal, 0, &addresses));
    for (address, named) in addresses.iter().zip(names) {
        let Some(named) = named else { continue };
        let start = address.wrapping_sub(named.offset);
        let of = |symbol: &object::Symbol<'_, '_>| {
            symbol.address() == start
                && address.checked_sub(start).is_some_and(|offset| offset < symbol.size())
        };
        assert!(symbols.iter().any(of), "{} is not in the file at {start:#x}", named.name);
    }
}
