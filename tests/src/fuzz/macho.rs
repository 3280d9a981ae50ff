//! Arbitrary Mach-O files: what the table of images and the index of functions say of one is what the `object` crate says.

use super::scratch::with_file;
use freezeframe_arch::Architecture;
use freezeframe_report::read::{Frame, Image, Record, Symbol};
use freezeframe_report::show::{FunctionIndex, Placement, Symbols};
use freezeframe_unwind::images::{ImageTable, part_of_fat_file};
use freezeframe_unwind::memory::SliceMemory;
use object::LittleEndian;
use object::macho::{MachHeader64, N_SECT, N_STAB, N_TYPE};
use object::read::macho::{MachHeader, Nlist, Segment};
use std::cell::RefCell;
use std::collections::HashSet;
use std::path::Path;

/// Where an image lies that is taken as loaded.
const LOADED: u64 = 0x1_8000_0000;

thread_local! {
    static IMAGES: RefCell<Box<ImageTable>> = RefCell::new(Box::new(ImageTable::new()));
}

/// The bytes are a file, thin or fat, and an image in memory.
pub fn macho(bytes: &[u8]) {
    IMAGES.with_borrow_mut(|images| {
        for part in [Architecture::Arm64, Architecture::X86_64].map(|which| part_of_fat_file(bytes, which)) {
            let Some(part) = part else { continue };
            check_image(images, part);
            for (address, placement) in [(0, Placement::File), (LOADED, Placement::Loaded)] {
                check_functions(part, address, placement);
            }
        }
    });
    let offsets: Vec<u64> = (0..0x800).step_by(111).collect();
    let uuid = FunctionIndex::read(&mut SliceMemory::new(0, bytes), 0, Placement::File)
        .and_then(|index| index.uuid());
    let uuid = uuid.unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect();
    with_file("macho", bytes, |path| names(path, "mach-o", uuid, LOADED, &offsets));
}

fn check_image(images: &mut ImageTable, bytes: &[u8]) {
    images.clear();
    if images.add(&mut SliceMemory::new(LOADED, bytes), LOADED, b"an image").is_none() {
        return;
    }
    let image = images.images()[0];
    assert!(image.range.start == LOADED && image.range.end > LOADED);
    for inside in [image.text, image.unwind_info, image.eh_frame] {
        assert!(
            inside.start >= inside.end || image.range.start <= inside.start && inside.end <= image.range.end
        );
    }
    let Some((linked_at, uuid)) = commands(bytes) else { return };
    assert_eq!(image.slide, LOADED.wrapping_sub(linked_at), "where __TEXT was linked");
    assert!(uuid.is_none_or(|uuid| images.build_id(&image) == uuid));
}

/// Where `__TEXT` was linked, and the UUID, by object's reader.
fn commands(bytes: &[u8]) -> Option<(u64, Option<[u8; 16]>)> {
    let header = MachHeader64::<LittleEndian>::parse(bytes, 0).ok()?;
    let mut commands = header.load_commands(LittleEndian, bytes, 0).ok()?;
    let (mut text, mut uuid) = (None, None);
    while let Some(command) = commands.next().ok()? {
        if let Some((segment, _)) = command.segment_64().ok()?
            && segment.segname == *b"__TEXT\0\0\0\0\0\0\0\0\0\0"
        {
            text = text.or(Some(segment.vmaddr(LittleEndian)));
        }
        uuid = command.uuid().ok()?.map_or(uuid, |command| Some(command.uuid));
    }
    Some((text?, uuid))
}

/// What is found lies where it was looked for, and bears the name of a symbol that is there.
fn check_functions(bytes: &[u8], address: u64, placement: Placement) {
    let mut memory = SliceMemory::new(address, bytes);
    let Some(index) = FunctionIndex::read(&mut memory, address, placement) else { return };
    let symbols = match placement {
        Placement::File => symbols(bytes),
        Placement::Loaded => None,
    };
    let everywhere = (0..0x800).step_by(12).chain((0..64).map(|bit| 1 << bit)).chain([u64::MAX]);
    for offset in everywhere {
        let Some(function) = index.find(offset) else { continue };
        assert!(function.start <= offset);
        assert_eq!(index.find(function.start), Some(function), "a function begins at its start");
        let Some(name) = index.name(&mut memory, &function) else { continue };
        assert!(!name.is_empty() && name.len() <= 3 * bytes.len());
        if let Some(symbols) = &symbols {
            let start = function.start;
            assert!(symbols.contains(&(start, name.clone())), "{name:?} is no symbol at {start:#x}");
        }
    }
}

/// Symbols of sections, from the image's header on, by object's reader. None if that cannot read the table.
fn symbols(bytes: &[u8]) -> Option<HashSet<(u64, String)>> {
    let header = MachHeader64::<LittleEndian>::parse(bytes, 0).ok()?;
    let mut commands = header.load_commands(LittleEndian, bytes, 0).ok()?;
    let (mut base, mut table) = (None, None);
    while let Some(command) = commands.next().ok()? {
        if let Some((segment, _)) =
            command.segment_64().ok()?.filter(|(segment, _)| segment.name() == b"__TEXT")
        {
            base = base.or(Some(segment.vmaddr(LittleEndian)));
        }
        table = command.symtab().ok()?.or(table);
    }
    let table = table?;
    // object gives no names out of strings that are cut off.
    let end = u64::from(table.stroff.get(LittleEndian)) + u64::from(table.strsize.get(LittleEndian));
    if end > bytes.len() as u64 {
        return None;
    }
    let table = table.symbols::<MachHeader64<LittleEndian>, _>(LittleEndian, bytes).ok()?;
    let in_section = |symbol: &&object::macho::Nlist64<LittleEndian>| {
        symbol.n_type & N_STAB == 0 && symbol.n_type & N_TYPE == N_SECT
    };
    let base = base?;
    let named = table.iter().filter(in_section).map(|symbol| {
        let name = symbol.name(LittleEndian, table.strings()).unwrap_or(&[]);
        (symbol.n_value(LittleEndian).wrapping_sub(base), String::from_utf8_lossy(name).into_owned())
    });
    Some(named.collect())
}

/// What frames at these offsets of an image are called, if it comes from this file.
pub(super) fn names(
    path: &Path,
    kind: &'static str,
    build_id: String,
    load_address: u64,
    offsets: &[u64],
) -> Vec<Option<Symbol>> {
    thread_local! {
        static RECORD: Record = super::report::empty_record();
    }
    let mut record = RECORD.with(Record::clone);
    let image = Image {
        index: 0,
        kind,
        path: path.to_string_lossy().into_owned(),
        build_id,
        load_address,
        size: u64::MAX,
        slide: load_address,
        ..record.images[0].clone()
    };
    record.images = vec![image];
    record.threads.truncate(1);
    let frames = offsets.iter().map(|offset| {
        let address = load_address.wrapping_add(*offset);
        let (origin, trust) = ("instruction", "context");
        Frame { pc: address, address, lookup: address, sp: 0, image: Some(0), origin, trust, symbol: None }
    });
    record.threads[0].frames = frames.collect();
    Symbols::new().name_frames(&mut record);
    record.threads.swap_remove(0).frames.into_iter().map(|frame| frame.symbol).collect()
}
