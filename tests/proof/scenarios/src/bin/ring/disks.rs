//! Disks that are full before a record is written.

use super::samples::{SIZE, Samples};
use freezeframe_report::file::ReportFile;
use freezeframe_report::layout::Outcome;
use freezeframe_report::read::Report;
use freezeframe_report::ring::{Live, Owner};
use freezeframe_scenarios::{Child, Folder, Property};
use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::ptr::null;
use std::time::Duration;

/// Each with how many records are written to it. A full btrfs takes its time.
const KINDS: [(&str, &str); 3] = [("tmpfs", "60"), ("ext4", "60"), ("btrfs", "8")];

pub(crate) fn prove() -> bool {
    let mut property = Property::new(
        "a full disk takes every record, and one that has lost its place is refused",
        "the disk filled up after the file was made; then holes made in the file, and on btrfs a snapshot",
    );
    let (mut there, mut left_out) = (Vec::new(), Vec::new());
    let (mut written, mut refused) = (0, 0);
    for (kind, records) in KINDS {
        let ended = Child::start(&["disk", kind, records], &[]).end(Duration::from_secs(120));
        // What could not be tried is said, and no failure.
        if let Some(why) = ended.output.lines().find_map(|line| line.strip_prefix("not available: ")) {
            left_out.push(format!("{kind}: {why}"));
            continue;
        }
        property.expect(ended.is_well(), || format!("{kind}: {:?}\n{}", ended.status, ended.output));
        property
            .expect(ended.count("written").to_string() == records, || format!("{kind}: {}", ended.output));
        written += ended.count("written");
        refused += ended.count("refused");
        there.push(kind);
    }
    property.expect(!there.is_empty(), || "no disk could be made".into());
    let left_out = if left_out.is_empty() {
        String::new()
    } else {
        format!(" (not available here: {})", left_out.join("; "))
    };
    property.conclude(&format!(
        "{}: {written} records written to full disks, {refused} refused without a place; no SIGBUS{left_out}",
        there.join(", ")
    ))
}

/// Makes a disk in a mount namespace of its own, and fills it from a child.
pub(crate) fn one(kind: &str, records: &str) {
    let folder = Folder::new(&std::env::temp_dir());
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).expect("a folder");
    if let Err(why) = mount(kind, folder.path(), &disk) {
        println!("not available: {why}");
        return;
    }
    let ended = Child::start(&["fill", &disk.to_string_lossy(), records], &[]).end(Duration::from_secs(100));
    // SAFETY: a path.
    unsafe { libc::umount2(text(&disk.to_string_lossy()).as_ptr(), libc::MNT_DETACH) };
    println!("{}", ended.output);
    assert!(ended.is_well(), "{:?}", ended.status);
}

fn mount(kind: &str, folder: &Path, disk: &Path) -> Result<(), String> {
    let failed = |what: &str| format!("{what}: {}", std::io::Error::last_os_error());
    // SAFETY: plain calls; this process has one thread.
    unsafe {
        if libc::unshare(libc::CLONE_NEWNS) != 0 {
            return Err(failed("mount namespaces"));
        }
        let flags = libc::MS_REC | libc::MS_PRIVATE;
        if libc::mount(null(), c"/".as_ptr(), null(), flags, null()) != 0 {
            return Err(failed("mount namespaces"));
        }
    }
    let path = disk.to_string_lossy();
    if kind == "tmpfs" {
        return run("mount", &["-t", "tmpfs", "-o", "size=8m", "none", &path]);
    }
    let image = folder.join("image");
    let megabytes = if kind == "btrfs" { 128 } else { 24 };
    let made = File::create(&image).and_then(|file| file.set_len(megabytes << 20));
    made.map_err(|error| error.to_string())?;
    let image = image.to_string_lossy();
    let made = match kind {
        "ext4" => run("mkfs.ext4", &["-q", "-F", &image]),
        _ => run("mkfs.btrfs", &["-q", "-f", &image]),
    };
    made?;
    run("mount", &["-t", kind, "-o", "loop", &image, &path]).map_err(|why| format!("loop devices: {why}"))
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let path = format!("{}:/sbin:/usr/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).args(arguments).env("PATH", path).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    Err(told.lines().next().unwrap_or(program).trim().to_owned())
}

fn text(path: &str) -> CString {
    CString::new(path).expect("no zero byte")
}

/// Makes the file, fills the disk, and writes.
pub(crate) fn fill(disk: &Path, records: u64) {
    let samples = Samples::take();
    let path = disk.join("r.ffr");
    let owner = Owner::this_process().expect("/proc");
    let file = ReportFile::open(&path, SIZE, owner).expect("a new file");
    fill_up(disk, "filler");
    let mut written = 0;
    let one = |number: u64| {
        let mut slot = file.ring().write(&samples.record(number)).map_err(|error| error.to_string())?;
        file.ring().update(&mut slot, Live::new(1_000_000_000 + number, Outcome::Recovered));
        // Written back, the blocks are the disk's, and no longer what waits in memory.
        file.sync().map_err(|error| error.to_string())?;
        let report = Report::open(&path).map_err(|error| error.to_string())?;
        let record = report.records.last().ok_or("there is none")?;
        let whole = record.complete && record.duration_ns == 1_000_000_000 + number;
        assert!(whole, "record {number}: {:?}", record.faults);
        let freed = (0..SIZE.slots as usize).any(|index| file.ring().consume(index, slot.sequence()));
        assert!(freed, "record {number} was there");
        Ok::<(), String>(())
    };
    for number in 0..records {
        if let Err(why) = one(number) {
            println!("record {number}: {why}");
            break;
        }
        written += 1;
    }
    // From here on the file has no place any more: what is written may be refused, and must not end the program.
    let snapshot =
        Command::new("btrfs").args(["subvolume", "snapshot"]).arg(disk).arg(disk.join("snapshot")).output();
    let snapshots = snapshot.is_ok_and(|output| output.status.success());
    let holes = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let other = File::options().write(true).open(&path).expect("the file is there");
    let bytes = SIZE.slots as i64 * i64::from(SIZE.stride);
    // SAFETY: an open file.
    unsafe { libc::fallocate(other.as_raw_fd(), holes, 8192, bytes) };
    fill_up(disk, "filler of holes");
    let refused = (0..records).filter(|number| file.ring().write(&samples.record(*number)).is_err()).count();
    println!("written={written} refused={refused} snapshots={snapshots}");
}

/// Until not one byte more has room.
fn fill_up(disk: &Path, name: &str) {
    // Not even room for a name: it is full already.
    let Ok(mut filler) = File::create(disk.join(name)) else { return };
    for bytes in [1 << 16, 1 << 12, 1] {
        while filler.write_all(&vec![1; bytes]).is_ok() {}
        let _ = filler.sync_all();
    }
}
