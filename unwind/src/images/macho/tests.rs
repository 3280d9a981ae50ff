extern crate std;
use super::*;
use crate::images::{ImageKind, ImageTable};
use crate::memory::SliceMemory;
use std::boxed::Box;
use std::vec::Vec;

const LOADED: u64 = 0x1_0dea_0000;

fn padded(text: &str) -> Name {
    core::array::from_fn(|n| text.as_bytes().get(n).copied().unwrap_or(0))
}

fn segment_command(name: &str, (start, size): (u64, u64), protection: u32, sections: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(LC_SEGMENT_64.to_le_bytes());
    bytes.extend((SEGMENT as u32 + (SECTION as usize * sections.len()) as u32).to_le_bytes());
    bytes.extend(padded(name));
    [start, size, 0, 0].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    [protection, protection, sections.len() as u32, 0]
        .iter()
        .for_each(|word| bytes.extend(word.to_le_bytes()));
    sections.iter().for_each(|section| bytes.extend(section));
    bytes
}

fn section_bytes(name: &str, segment: &str, (start, size): (u64, u64)) -> Vec<u8> {
    let mut bytes = Vec::from([padded(name), padded(segment)].as_flattened());
    [start, size, 0, 0, 0, 0].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    bytes
}

fn uuid_command() -> Vec<u8> {
    let mut bytes = Vec::from([LC_UUID, 24].map(u32::to_le_bytes).as_flattened());
    bytes.extend(0..16u8);
    bytes
}

fn image_bytes(cpu: u32, commands: &[Vec<u8>]) -> Vec<u8> {
    let size: usize = commands.iter().map(Vec::len).sum();
    let header = [MAGIC, cpu, 0, 2, commands.len() as u32, size as u32, 0, 0].map(u32::to_le_bytes);
    let mut bytes = Vec::from(header.as_flattened());
    commands.iter().for_each(|command| bytes.extend(command));
    bytes
}

fn program() -> Vec<Vec<u8>> {
    let sections = [
        section_bytes("__text", "__TEXT", (0x1_0000_1000, 0x800)),
        section_bytes("__unwind_info", "__TEXT", (0x1_0000_2000, 0x100)),
        section_bytes("__eh_frame", "__TEXT", (0x1_0000_2100, 0x80)),
    ];
    Vec::from([
        segment_command("__PAGEZERO", (0, 0x1_0000_0000), 0, &[]),
        segment_command("__TEXT", (0x1_0000_0000, 0x4000), 5, &sections),
        segment_command("__DATA", (0x1_0000_4000, 0x4000), 3, &[]),
        uuid_command(),
    ])
}

fn read_image(bytes: &[u8]) -> Option<(Image, Vec<u8>)> {
    let mut image = Image::EMPTY;
    let uuid = read(&mut SliceMemory::new(LOADED, bytes), LOADED, &mut image)?;
    Some((image, uuid.bytes().to_vec()))
}

#[test]
fn segments_and_sections_give_the_slide_the_code_and_the_tables() {
    for cpu in [CPU_ARM64, CPU_X86_64] {
        let (image, uuid) = read_image(&image_bytes(cpu, &program())).unwrap();
        assert_eq!(image.slide, 0x0dea_0000);
        assert_eq!(image.range, Range { start: LOADED, end: LOADED + 0x4000 });
        assert!(image.code().eq([image.range]));
        assert_eq!(image.text, Range { start: LOADED + 0x1000, end: LOADED + 0x1800 });
        assert_eq!(image.unwind_info, Range { start: LOADED + 0x2000, end: LOADED + 0x2100 });
        assert_eq!(image.eh_frame, Range { start: LOADED + 0x2100, end: LOADED + 0x2180 });
        assert_eq!(uuid, (0..16).collect::<Vec<u8>>());
    }
}

#[test]
fn the_header_tells_the_variant_and_the_shared_cache() {
    let read = |cpu, subtype: u32, flags: u32| {
        let mut bytes = image_bytes(cpu, &program());
        bytes[8..12].copy_from_slice(&subtype.to_le_bytes());
        bytes[24..28].copy_from_slice(&flags.to_le_bytes());
        let image = read_image(&bytes).unwrap().0;
        (image.variant, image.in_shared_cache)
    };
    assert_eq!(read(CPU_ARM64, 0, 0), (false, false));
    assert_eq!(
        read(CPU_ARM64, 0x8000_0002, MH_DYLIB_IN_CACHE | 0x85),
        (true, true),
        "arm64e with its ABI's version"
    );
    assert_eq!(read(CPU_ARM64, 8, 0x85), (false, false), "of no meaning on arm64");
    assert_eq!(read(CPU_X86_64, 0x8000_0003, 0), (false, false));
    assert_eq!(read(CPU_X86_64, 8, 0), (true, false));
}

#[test]
fn an_image_is_added_by_its_magic_number() {
    let bytes = image_bytes(CPU_ARM64, &program());
    let mut table = Box::new(ImageTable::new());
    let range = table.add(&mut SliceMemory::new(LOADED, &bytes), LOADED, b"/usr/lib/a.dylib");
    assert_eq!(range, Some(Range { start: LOADED, end: LOADED + 0x4000 }));
    let (_, image) = table.find(LOADED + 0x1004).unwrap();
    assert_eq!((image.kind, table.build_id(image).len()), (ImageKind::MachO, 16));
    assert_eq!(table.path(image), b"/usr/lib/a.dylib");
}

#[test]
fn hostile_load_commands_end_in_none_or_in_less() {
    let good = image_bytes(CPU_ARM64, &program());
    let commands = 32 + u32::from_le_bytes(*good[20..].first_chunk().unwrap()) as usize;
    for size in 0..good.len() {
        assert_eq!(read_image(&good[..size]).is_some(), size >= commands, "not by half, of {size} bytes");
    }
    assert!(read_image(&image_bytes(7, &program())).is_none(), "32 bits");
    let mut object = good.clone();
    object[12] = MH_OBJECT as u8;
    assert!(read_image(&object).is_none(), "not linked");

    let mut endless = good.clone();
    endless[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(read_image(&endless).is_none());
    let mut still = good.clone();
    // The size of the first command.
    still[36..40].copy_from_slice(&0u32.to_le_bytes());
    assert!(read_image(&still).is_none(), "a command that does not go on");

    let wraps = [segment_command("__TEXT", (u64::MAX - 5, 10), 5, &[])];
    assert!(read_image(&image_bytes(CPU_ARM64, &wraps)).is_none());
    let huge = [segment_command("__TEXT", (0, u64::MAX), 5, &[])];
    assert_eq!(read_image(&image_bytes(CPU_ARM64, &huge)).unwrap().0.range.end, u64::MAX);

    let mut many = program();
    // The number of sections.
    many[1][64..68].copy_from_slice(&u32::MAX.to_le_bytes());
    let (image, _) = read_image(&image_bytes(CPU_ARM64, &many)).unwrap();
    assert_eq!(image.unwind_info.end, LOADED + 0x2100, "as many as the command has room for");

    let outside = section_bytes("__unwind_info", "__TEXT", (0x1_0000_3fff, 0x100));
    let outside = [segment_command("__TEXT", (0x1_0000_0000, 0x4000), 5, &[outside])];
    assert_eq!(read_image(&image_bytes(CPU_ARM64, &outside)).unwrap().0.unwind_info.if_any(), None);
}

#[test]
fn a_part_of_a_fat_file_is_chosen_by_its_architecture() {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let mut file = Vec::from(FAT_MAGIC);
    file.extend(words(&[2, CPU_X86_64, 3, 48, 4, 0, CPU_ARM64, 0, 52, 3, 0]));
    file.extend(*b"INTEarm");
    assert_eq!(part_of_fat_file(&file, Architecture::X86_64), Some(&b"INTE"[..]));
    assert_eq!(part_of_fat_file(&file, Architecture::Arm64), Some(&b"arm"[..]));
    assert_eq!(part_of_fat_file(&file[..file.len() - 1], Architecture::Arm64), None, "cut short");
    assert_eq!(part_of_fat_file(&file[..20], Architecture::X86_64), None);
    file[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(part_of_fat_file(&file, Architecture::X86_64), None, "beyond the end");
}
