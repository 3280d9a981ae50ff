//! Files that a forged report names as its images.

use crate::common::{Folder, about, capture, portion};
use crate::forged::{EVIL, encoded, join, replace, sections, show, stored};
use freezeframe_report::read::Record;
use freezeframe_report::show::Symbols;
use rustix::fs::{FileType, Mode};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

struct Program {
    sections: Vec<(u32, Vec<u8>)>,
    path: Vec<u8>,
    build_id: Vec<u8>,
}

/// A record of this process, and what it says of this program.
fn program() -> &'static Program {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let bytes = encoded(&capture(), &about(1));
        let record = stored(&Folder::new(), "own", &bytes, 1 << 20);
        let path = std::env::current_exe().unwrap().into_os_string().into_encoded_bytes();
        let own = record.images.iter().find(|image| image.path.as_bytes() == path).unwrap();
        let hex = own
            .build_id
            .as_bytes()
            .chunks(2)
            .map(|byte| u8::from_str_radix(str::from_utf8(byte).unwrap(), 16));
        Program { sections: sections(&bytes), path, build_id: hex.map(Result::unwrap).collect() }
    })
}

/// The record with another path in the place of the program's, as long as it.
fn naming(folder: &Folder, path: &Path) -> Record {
    let own = program();
    let (parent, name) =
        (path.parent().unwrap().to_str().unwrap(), path.file_name().unwrap().to_str().unwrap());
    let fill = own.path.len().checked_sub(parent.len() + name.len()).expect("a short path");
    let spelt = [parent.as_bytes(), &b"/".repeat(fill), name.as_bytes()].concat();
    let mut parts = own.sections.clone();
    assert!(replace(&mut parts, &own.path, &spelt) >= 1);
    stored(folder, "report", &join(&parts), 1 << 20)
}

/// An ELF file with the program's build id, and functions at all of its addresses.
fn elf(symbols: usize, strings: &[u8], size_of_table: u64) -> Vec<u8> {
    let (note, table) = (64 + 56, 64 + 56 + 12 + 4 + 20);
    let strings_at = table + symbols * 24;
    let sections_at = strings_at + strings.len();
    let id = &program().build_id;
    assert_eq!(id.len(), 20);
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let half = |file: &mut Vec<u8>, value: u16| file.extend(value.to_le_bytes());
    let word = |file: &mut Vec<u8>, value: u32| file.extend(value.to_le_bytes());
    let long = |file: &mut Vec<u8>, value: u64| file.extend(value.to_le_bytes());
    half(&mut file, 3);
    half(&mut file, 62);
    word(&mut file, 1);
    [0, 64, sections_at as u64].into_iter().for_each(|value| long(&mut file, value));
    word(&mut file, 0);
    [64, 56, 1, 64, 3, 2].into_iter().for_each(|value| half(&mut file, value));
    // The segment of notes.
    word(&mut file, 4);
    word(&mut file, 4);
    [note as u64, 0, 0, 36, 36, 4].into_iter().for_each(|value| long(&mut file, value));
    [4, 20, 3].into_iter().for_each(|value| word(&mut file, value));
    file.extend(b"GNU\0");
    file.extend(id);
    for symbol in 0..symbols {
        word(&mut file, 1);
        file.extend([0x12, 0]);
        half(&mut file, 1);
        long(&mut file, symbol as u64 * 16);
        long(&mut file, if symbol + 1 == symbols { 1 << 40 } else { 16 });
    }
    file.extend(strings);
    for (kind, at, size, link) in
        [(0, 0, 0, 0), (2, table, size_of_table, 2), (3, strings_at, strings.len() as u64, 0)]
    {
        word(&mut file, 0);
        word(&mut file, kind);
        [0, 0, at as u64, size].into_iter().for_each(|value| long(&mut file, value));
        word(&mut file, link);
        word(&mut file, 0);
        long(&mut file, 8);
        long(&mut file, 24);
    }
    file
}

/// Names the frames, and says how many got a name from the file, and how long it took.
fn name(record: &mut Record) -> (usize, Duration) {
    let begun = crate::cpu_time();
    Symbols::new().name_frames(record);
    let path = program().path.len();
    let of_file = |frame: &&freezeframe_report::read::Frame| {
        record.image(frame).is_some_and(|image| image.path.len() == path) && frame.symbol.is_some()
    };
    (
        record.threads.iter().flat_map(|thread| &thread.frames).filter(of_file).count(),
        crate::cpu_time() - begun,
    )
}

#[test]
fn a_functions_name_is_no_command_to_a_terminal() {
    let folder = Folder::new();
    let path = folder.path("evil");
    // A name ends at a zero and at the version.
    let evil = EVIL.replace('\0', "");
    std::fs::write(&path, elf(1, &[b"\0", evil.as_bytes(), b"\0"].concat(), 24)).unwrap();
    let mut record = naming(&folder, &path);
    let (named, _) = name(&mut record);
    assert!(named > 0);
    let symbols =
        record.threads.iter().flat_map(|thread| &thread.frames).filter_map(|frame| frame.symbol.as_ref());
    assert!(symbols.clone().any(|symbol| symbol.name == evil), "{:?}", symbols.collect::<Vec<_>>());
    let shown = show(&record);
    shown.check();
    assert!(shown.text.contains("evil"));
}

#[test]
fn a_hostile_file_is_read_in_time_that_grows_with_its_size() {
    let folder = Folder::new();
    // Every name is the same text without an end.
    let took = |symbols: usize| {
        let path = folder.path(&format!("names-{symbols}"));
        let strings = vec![b'a'; symbols * 24];
        std::fs::write(&path, elf(symbols, &strings, symbols as u64 * 24)).unwrap();
        let mut record = naming(&folder, &path);
        std::fs::remove_file(folder.path("report")).unwrap();
        let (named, first) = name(&mut record);
        assert_eq!(named, 0, "a name without an end");
        first.min(name(&mut record).1).min(name(&mut record).1)
    };
    let few = portion(100_000);
    // On a loaded machine one measurement says little: in proportion once is in proportion.
    let fair = (0..5).find_map(|_| {
        let (once, more) = (took(few), took(4 * few));
        println!("{few} take {once:?}, {} {more:?}", 4 * few);
        let ratio = more.as_secs_f64() / once.as_secs_f64();
        (ratio < 12.0 && more < Duration::from_secs(20)).then_some((once, ratio))
    });
    let (once, ratio) = fair.expect("more than in proportion, five times");
    println!("attacks: {few} endless names take {once:?}, four times as many {ratio:.2} times as long");
}

#[test]
fn tables_larger_than_the_disk_pipes_folders_and_relative_paths_are_left_alone() {
    let folder = Folder::new();
    let mut attacks = 0;
    let mut none_named = |path: &Path| {
        let mut record = naming(&folder, path);
        std::fs::remove_file(folder.path("report")).unwrap();
        let (named, took) = name(&mut record);
        assert!(named == 0 && took < Duration::from_secs(20), "{}: {named} in {took:?}", path.display());
        attacks += 1;
    };
    let huge = folder.path("huge");
    std::fs::write(&huge, elf(1, b"\0name\0", 1 << 39)).unwrap();
    std::fs::OpenOptions::new().write(true).open(&huge).unwrap().set_len(1 << 40).unwrap();
    // Its first symbol would be a name for everything, its others are holes: so it is read, as far as is sensible.
    let mut record = naming(&folder, &huge);
    std::fs::remove_file(folder.path("report")).unwrap();
    let (_, took) = name(&mut record);
    assert!(took < Duration::from_secs(20), "{took:?}");
    let cut = folder.path("cut");
    std::fs::write(&cut, &elf(1, b"\0name\0", 1 << 39)[..100]).unwrap();
    none_named(&cut);
    let pipe = folder.path("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    none_named(&pipe);
    std::fs::create_dir(folder.path("folder")).unwrap();
    none_named(&folder.path("folder"));
    none_named(Path::new("/dev/zero"));
    none_named(Path::new("/dev/tty"));
    // From where this test runs, the same file by a path without a root.
    let good = folder.path("good");
    std::fs::write(&good, elf(1, b"\0name\0", 24)).unwrap();
    assert!(name(&mut naming(&folder, &good)).0 > 0, "by its whole path it is read");
    std::fs::remove_file(folder.path("report")).unwrap();
    let up = "../".repeat(std::env::current_dir().unwrap().components().count());
    let relative = Path::new(&up).join(good.strip_prefix("/").unwrap());
    assert!(relative.exists());
    none_named(&relative);
    println!("attacks: {} image paths", attacks + 1);
}
