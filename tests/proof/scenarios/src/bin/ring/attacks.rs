//! A file that other processes cut off, delete, replace, close and scribble over while it is written to.

use super::samples::{SIZE, Samples};
use freezeframe_report::file::ReportFile;
use freezeframe_report::layout::Outcome;
use freezeframe_report::ring::{Live, Owner};
use freezeframe_scenarios::{Child, Folder, Property};
use std::fs::{OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a writer writes.
const TIME: Duration = Duration::from_millis(1500);

/// What is done to a file again and again.
type Attack = fn(&Path, u64) -> std::io::Result<()>;

const ATTACKS: [(&str, Attack); 5] = [
    ("cut off", |file, round| {
        let size = SIZE.slots as u64 * u64::from(SIZE.stride) + 8192;
        let file = OpenOptions::new().write(true).open(file)?;
        file.set_len(if round % 2 == 0 { round * 4096 % size } else { size })
    }),
    ("deleted", |file, round| match round % 2 {
        0 => std::fs::remove_file(file),
        _ => std::fs::write(file, b"another file"),
    }),
    ("replaced", |file, _| {
        let other = file.with_extension("other");
        std::fs::write(&other, vec![0; 10_000])?;
        std::fs::rename(other, file)
    }),
    ("closed to everybody", |file, _| {
        std::fs::set_permissions(file, Permissions::from_mode(0o000))?;
        std::os::unix::fs::chown(file, Some(65534), Some(65534))
    }),
    ("scribbled over", |file, round| {
        let file = OpenOptions::new().write(true).open(file)?;
        let mut place = round.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        place ^= place >> 29;
        file.write_all_at(&place.to_le_bytes().repeat(64), place % (SIZE.stride as u64 * 4))
    }),
];

pub(crate) fn prove() -> bool {
    let how = "a writer on tmpfs beside a process that does this to its file again and again: cut off, deleted, replaced, \
               closed to everybody, scribbled over";
    let mut property =
        Property::new("whatever is done to the file, the program that writes to it goes on", how);
    let (mut rounds, mut records) = (0, 0);
    for (name, attack) in ATTACKS {
        let folder = Folder::new(Path::new("/dev/shm"));
        let file = folder.path().join("attacked.ffr");
        drop(ReportFile::open(&file, SIZE, Owner::this_process().expect("/proc")).expect("a new file"));
        let writer = Child::start(&["write", &file.to_string_lossy()], &[]);
        while !folder.path().join("begun").exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let begun = Instant::now();
        while begun.elapsed() < TIME + Duration::from_millis(300) {
            // What it has deleted cannot be cut off.
            let _ = attack(&file, rounds);
            rounds += 1;
        }
        let ended = writer.end(Duration::from_secs(60));
        property.expect(ended.is_well(), || format!("{name}: {:?} {}", ended.status, ended.output));
        property.expect(ended.count("records") > 20, || format!("{name}: {}", ended.output));
        records += ended.count("records");
    }
    property
        .conclude(&format!("{} kinds, {rounds} times, while {records} records were written", ATTACKS.len()))
}

/// Writes for some time, whatever becomes of the records.
pub(crate) fn write(path: &Path) {
    let samples = Samples::take();
    let file =
        ReportFile::open(path, SIZE, Owner::this_process().expect("/proc")).expect("a file of one's own");
    std::fs::write(path.with_file_name("begun"), b"").expect("a sign for the other process");
    let begun = Instant::now();
    let (mut records, mut refused) = (0u64, 0u64);
    while begun.elapsed() < TIME {
        records += 1;
        match file.ring().write(&samples.record(records)) {
            Ok(mut slot) => {
                file.ring().update(&mut slot, Live::new(records, Outcome::Recovered));
                (0..SIZE.slots as usize).for_each(|index| {
                    file.ring().consume(index, slot.sequence());
                });
            }
            Err(_) => refused += 1,
        }
        let _ = (file.check(), file.sync());
    }
    let _ = writeln!(std::io::stdout(), "records={records} refused={refused}");
}
