//! The functions of a Mach-O image, out of its file and as it is loaded. `data/functions.dylib` is made of `functions.c` beside
//! it; what is expected of it here is what `llvm-nm` and `llvm-objdump --function-starts` say.

mod common;

use common::{Folder, capture, owner, portion, record};
use freezeframe_arch::Architecture;
use freezeframe_report::file::{ReportFile, Size};
use freezeframe_report::read::{Image, Record, Report};
use freezeframe_report::show::{FunctionIndex, Placement, Symbols};
use freezeframe_unwind::images::{ImageTable, part_of_fat_file};
use freezeframe_unwind::memory::{Memory, SliceMemory};
use proptest::prelude::{ProptestConfig, any, proptest};
use std::path::{Path, PathBuf};

/// Where each function begins, and its name: all that were compiled.
const ARM64: [(u64, &str); 13] = [
    (0x508, "_z_exported_alias"),
    (0x514, "_outer"),
    (0x51c, "_inner"),
    (0x524, "_exported"),
    (0x540, "_local"),
    (0x55c, "_hidden"),
    (0x57c, "_weak"),
    (0x598, "-[Class method:]"),
    (0x5b4, "_$s4main5swiftyyF"),
    (0x5d0, "__ZN4name6spacedEi"),
    (0x5ec, "_calls"),
    (0x604, "_last"),
    (0x650, "_cold"),
];
const ARM64_CODE: [std::ops::Range<u64>; 2] = [0x508..0x620, 0x650..0x66c];

/// Stripped of local symbols: those functions have a start and no name.
const X86_64: [(u64, &str); 13] = [
    (0x550, "_z_exported_alias"),
    (0x554, "_outer"),
    (0x556, "_inner"),
    (0x560, "_exported"),
    (0x580, ""),
    (0x5a0, ""),
    (0x5c0, "_weak"),
    (0x5e0, "-[Class method:]"),
    (0x600, "_$s4main5swiftyyF"),
    (0x620, "__ZN4name6spacedEi"),
    (0x640, "_calls"),
    (0x650, ""),
    (0x6a0, "_cold"),
];
const X86_64_CODE: [std::ops::Range<u64>; 2] = [0x550..0x671, 0x6a0..0x6bf];

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/functions.dylib")
}

fn image(architecture: Architecture) -> Vec<u8> {
    let file = std::fs::read(path()).unwrap();
    part_of_fat_file(&file, architecture).unwrap().to_vec()
}

/// What an index says of each of the first bytes of an image.
fn all<M: Memory>(index: &FunctionIndex, memory: &mut M, bytes: u64) -> Vec<Option<(u64, String)>> {
    let named = |offset| {
        let function = index.find(offset)?;
        Some((function.start, index.name(memory, &function).unwrap_or_default()))
    };
    (0..bytes).map(named).collect()
}

#[test]
fn every_byte_of_code_has_its_function_and_no_other_byte_has_one() {
    for (architecture, functions, code) in
        [(Architecture::Arm64, ARM64, ARM64_CODE), (Architecture::X86_64, X86_64, X86_64_CODE)]
    {
        let bytes = image(architecture);
        let mut memory = SliceMemory::new(0, &bytes);
        let index = FunctionIndex::read(&mut memory, 0, Placement::File).unwrap();
        for (offset, found) in all(&index, &mut memory, 0x9000).into_iter().enumerate() {
            let offset = offset as u64;
            let expected = code.iter().any(|section| section.contains(&offset)).then(|| {
                let (start, name) = functions.iter().rfind(|(start, _)| *start <= offset).unwrap();
                (*start, (*name).to_owned())
            });
            assert_eq!(found, expected, "{architecture:?} {offset:#x}");
        }
        assert_eq!(index.find(u64::MAX), None);
    }
}

/// Memory of several pieces.
struct Pieces(Vec<(u64, Vec<u8>)>);

impl Memory for Pieces {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        let pieces = self.0.iter().filter_map(|(base, bytes)| {
            let offset = usize::try_from(address.checked_sub(*base)?).ok()?;
            bytes.get(offset..)
        });
        let bytes = pieces.max_by_key(|bytes| bytes.len()).unwrap_or(&[]);
        out.iter_mut().zip(bytes).map(|(to, from)| *to = *from).count()
    }
}

const LOADED: u64 = 0x1_8000_0000;
/// Far behind `__TEXT`, as in the shared cache, and at a place that is not its place in the file.
const LINKEDIT: u64 = 0x3000_0000;
/// What the shared cache adds to the offsets of all that lies in `__LINKEDIT`.
const MOVED: u32 = 0x12_0000;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn commands(bytes: &[u8]) -> Vec<(usize, u32)> {
    let mut at = 32;
    let count = word(bytes, 16);
    let command = |_| {
        let here = (at, word(bytes, at));
        at += word(bytes, at + 4) as usize;
        here
    };
    (0..count).map(command).collect()
}

/// The image as it lies in the shared cache: `__LINKEDIT` is elsewhere, and so are the offsets into it.
fn in_shared_cache(file: &[u8]) -> Pieces {
    let mut text = file[..0x4000].to_vec();
    let mut linkedit = Vec::new();
    for (at, kind) in commands(file) {
        let mut add = |at: usize, value: u32| {
            let value = word(file, at) + value;
            text[at..at + 4].copy_from_slice(&value.to_le_bytes());
        };
        match kind {
            0x19 if file[at + 8..].starts_with(b"__LINKEDIT") => {
                let offset = word(file, at + 40);
                linkedit = file[offset as usize..][..word(file, at + 48) as usize].to_vec();
                add(at + 40, MOVED);
                text[at + 24..at + 32].copy_from_slice(&LINKEDIT.to_le_bytes());
            }
            // LC_SYMTAB, LC_FUNCTION_STARTS.
            2 => [8, 16].into_iter().for_each(|field| add(at + field, MOVED)),
            0x26 => add(at + 8, MOVED),
            _ => {}
        }
    }
    Pieces(vec![(LOADED, text), (LOADED + LINKEDIT, linkedit)])
}

#[test]
fn an_image_in_the_shared_cache_says_what_its_file_says() {
    for architecture in [Architecture::Arm64, Architecture::X86_64] {
        let bytes = image(architecture);
        let mut file = SliceMemory::new(0, &bytes);
        let of_file = FunctionIndex::read(&mut file, 0, Placement::File).unwrap();
        let mut memory = in_shared_cache(&bytes);
        let of_cache = FunctionIndex::read(&mut memory, LOADED, Placement::Loaded).unwrap();
        assert_eq!(of_file.uuid(), of_cache.uuid());
        let expected = all(&of_file, &mut file, 0x1000);
        assert_eq!(all(&of_cache, &mut memory, 0x1000), expected);
        assert!(expected.iter().flatten().count() > 250);
    }
}

#[test]
fn what_is_no_linked_image_has_no_index_and_what_lacks_its_tables_has_no_names() {
    let bytes = image(Architecture::Arm64);
    let read = |bytes: &[u8]| FunctionIndex::read(&mut SliceMemory::new(0, bytes), 0, Placement::File);
    assert!(read(&[]).is_none() && read(&bytes[..31]).is_none() && read(b"\x7fELF").is_none());
    let mut object = bytes.clone();
    object[12] = 1;
    assert!(read(&object).is_none(), "addresses of an object file are not those of an image");
    // Cut off before __LINKEDIT: code is known, and no function in it.
    let cut = read(&bytes[..0x4000]).unwrap();
    assert_eq!(cut.find(0x508), None);
    // Without the starts of functions, a name reaches to the next.
    let mut nameless = bytes.clone();
    let (starts, _) = commands(&bytes).into_iter().find(|(_, kind)| *kind == 0x26).unwrap();
    nameless[starts + 12..starts + 16].fill(0);
    let index = read(&nameless).unwrap();
    let starts: Vec<u64> = (0..0x700).filter_map(|offset| index.find(offset)).map(|f| f.start).collect();
    assert!(ARM64.iter().all(|(start, _)| starts.contains(start)));
}

/// A small generator with a fixed seed: every run sees the same damage.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % bound
    }
}

/// Whatever is damaged, reading ends, and what is found lies where it was looked for.
fn check<M: Memory>(memory: &mut M, address: u64, placement: Placement) -> bool {
    let Some(index) = FunctionIndex::read(memory, address, placement) else { return false };
    for offset in (0x500..0x700).step_by(5).chain([0, 0x8000, u64::from(u32::MAX), u64::MAX]) {
        if let Some(function) = index.find(offset) {
            assert!(function.start <= offset);
            assert!(
                index.name(memory, &function).is_none_or(|name| !name.is_empty() && name.len() < 1 << 18)
            );
        }
    }
    true
}

#[test]
fn damaged_images_are_read_to_the_end_without_a_panic() {
    let mut random = Random(1);
    let (mut read, rounds) = (0, portion(2_000));
    for round in 0..rounds {
        let architecture = [Architecture::Arm64, Architecture::X86_64][round % 2];
        let mut file = image(architecture);
        let mut cache = in_shared_cache(&file);
        for _ in 0..=random.below(4) {
            // The load commands, or what they point to.
            let in_commands = random.below(2) == 0;
            let place = if in_commands { random.below(0x500) } else { file.len() - 1 - random.below(0x300) };
            let value = [0, 1, 0x7f, 0x80, 0xff, random.below(256) as u8][random.below(6)];
            file[place] = value;
            let piece = &mut cache.0[usize::from(!in_commands)].1;
            let place =
                if in_commands { place } else { piece.len() - 1 - random.below(0x300.min(piece.len())) };
            piece[place] = value;
        }
        let length = if random.below(8) == 0 { random.below(file.len()) } else { file.len() };
        read += usize::from(check(&mut SliceMemory::new(0, &file[..length]), 0, Placement::File));
        read += usize::from(check(&mut SliceMemory::new(LOADED, &file), LOADED, Placement::Loaded));
        read += usize::from(check(&mut cache, LOADED, Placement::Loaded));
    }
    assert!(read > rounds, "most damage leaves an image");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: portion(500) as u32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Arbitrary load commands behind a right header, of the kinds that are read.
    #[test]
    fn arbitrary_load_commands_are_read_without_a_panic(
        fields in proptest::collection::vec(any::<u8>(), 0..600),
        kinds in proptest::collection::vec(proptest::sample::select(vec![0x19u32, 2, 0x26, 0x1b]), 0..12),
    ) {
        let mut commands = Vec::new();
        for (at, kind) in kinds.iter().enumerate() {
            let body = fields.get(at * 40..).unwrap_or(&[]);
            let size = if *kind == 0x19 { 72 + 80 } else { 24 };
            commands.extend(kind.to_le_bytes());
            commands.extend((size as u32).to_le_bytes());
            commands.extend(if at % 3 == 0 && *kind == 0x19 { b"__TEXT\0\0" } else { b"__LINKED" });
            commands.extend(body.iter().copied().chain(std::iter::repeat(0)).take(size - 16));
        }
        let mut bytes = image(Architecture::Arm64)[..32].to_vec();
        bytes[16..20].copy_from_slice(&(kinds.len() as u32).to_le_bytes());
        bytes[20..24].copy_from_slice(&(commands.len() as u32).to_le_bytes());
        bytes.extend(&commands);
        bytes.extend(&fields);
        check(&mut SliceMemory::new(0, &bytes), 0, Placement::File);
        check(&mut SliceMemory::new(LOADED, &bytes), LOADED, Placement::Loaded);
    }
}

/// A record whose first thread has frames at some offsets of an image.
fn record_of(path: &Path, uuid: &str, load_address: u64, offsets: &[u64]) -> Record {
    let captured = capture();
    let folder = Folder::new();
    let file = ReportFile::open(&folder.path("r"), Size { slots: 3, stride: 1 << 18 }, owner()).unwrap();
    file.ring().write(&record(&captured, 1, 200_000)).unwrap();
    let mut record = Report::open(&folder.path("r")).unwrap().records.remove(0);
    let image = Image {
        index: 5,
        kind: "mach-o",
        path: path.to_str().unwrap().to_owned(),
        build_id: uuid.to_owned(),
        load_address,
        size: 0x4000,
        slide: load_address,
        ..record.images[0].clone()
    };
    record.images = vec![image];
    let frame = record.threads[0].frames[0].clone();
    record.threads.truncate(1);
    let frames = offsets.iter().map(|offset| {
        let (address, image) = (load_address + offset, Some(5));
        freezeframe_report::read::Frame { address, lookup: address - 1, image, symbol: None, ..frame.clone() }
    });
    record.threads[0].frames = frames.collect();
    record
}

fn uuid_of(architecture: Architecture) -> String {
    let mut table = Box::new(ImageTable::new());
    table.add(&mut SliceMemory::new(0x1000, &image(architecture)), 0x1000, b"").unwrap();
    table.build_id(&table.images()[0]).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn frames_are_named_out_of_the_part_of_a_fat_file_that_has_the_uuid() {
    let names = |record: &Record| -> Vec<String> {
        let frames = record.threads[0].frames.iter();
        let name = |symbol: &freezeframe_report::read::Symbol| format!("{} + {}", symbol.name, symbol.offset);
        frames.map(|frame| frame.symbol.as_ref().map_or_else(String::new, name)).collect()
    };
    // A return address right behind a function's last instruction still belongs to it.
    let mut arm64 = record_of(
        &path(),
        &uuid_of(Architecture::Arm64),
        LOADED,
        &[0x514, 0x540, 0x5b0, 0x5b8, 0x5d4, 0x625],
    );
    Symbols::new().name_frames(&mut arm64);
    let expected = [
        "z_exported_alias + 12",
        "exported + 28",
        "-[Class method:] + 24",
        "_$s4main5swiftyyF + 4",
        "name::spaced(int) + 4",
        "",
    ];
    assert_eq!(names(&arm64), expected);
    let mut x86_64 = record_of(&path(), &uuid_of(Architecture::X86_64), LOADED, &[0x570, 0x590]);
    Symbols::new().name_frames(&mut x86_64);
    assert_eq!(names(&x86_64), ["exported + 16", ""], "a function without a name gets no other's");
    let mut other = record_of(&path(), &"0".repeat(32), LOADED, &[0x514]);
    Symbols::new().name_frames(&mut other);
    assert_eq!(names(&other), [""], "another build of the image");
}

/// Of what lies in the shared cache there is no file: the reading process has it loaded itself.
#[cfg(target_vendor = "apple")]
#[test]
fn frames_in_the_shared_cache_are_named() {
    let sleeper = std::thread::Builder::new().name("sleeper".into());
    let _sleeper = sleeper.spawn(|| std::thread::sleep(std::time::Duration::from_secs(60))).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let captured = capture();
    let folder = Folder::new();
    let file = ReportFile::open(&folder.path("r"), Size { slots: 3, stride: 1 << 18 }, owner()).unwrap();
    file.ring().write(&record(&captured, 1, 200_000)).unwrap();
    let mut record = Report::open(&folder.path("r")).unwrap().records.remove(0);
    Symbols::new().name_frames(&mut record);
    let thread = record.threads.iter().find(|thread| thread.name == "sleeper").unwrap();
    assert!(record.image(&thread.frames[0]).unwrap().in_shared_cache);
    let names: Vec<&str> = thread
        .frames
        .iter()
        .filter_map(|frame| frame.symbol.as_ref())
        .map(|symbol| symbol.name.as_str())
        .collect();
    assert!(names.starts_with(&["__semwait_signal", "nanosleep"]), "{names:?}");
}
