//! Things at the report's path that are no report of ours.

use crate::common::{Folder, owner};
use freezeframe_report::file::{FileError, ReportFile, Size};
use freezeframe_report::read::Report;
use rustix::fs::{FileType, Gid, Mode, Uid};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SIZE: Size = Size { slots: 3, stride: 8192 };

fn open(path: &Path) -> Result<ReportFile, FileError> {
    ReportFile::open(path, SIZE, owner())
}

fn permissions(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn the_file_is_its_owners_alone_whatever_the_umask() {
    let folder = Folder::new();
    let usual = rustix::process::umask(Mode::empty());
    for mask in [0, 0o022, 0o077, 0o277, 0o777] {
        let path = folder.path(&format!("umask-{mask:o}"));
        rustix::process::umask(Mode::from_raw_mode(mask));
        let file = open(&path);
        rustix::process::umask(usual);
        drop(file.unwrap());
        assert_eq!(permissions(&path), 0o600, "umask {mask:o}");
    }
    let path = folder.path("umask-0");
    for mode in [0o644, 0o666, 0o777, 0o660] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        drop(open(&path).unwrap());
        assert_eq!(permissions(&path), 0o600, "it was {mode:o}");
    }
}

#[test]
fn what_is_no_report_of_ours_is_neither_followed_nor_waited_for_nor_changed() {
    let folder = Folder::new();
    let path = |name| folder.path(name);
    let victim = path("victim");
    std::fs::write(&victim, b"precious").unwrap();
    symlink(&victim, path("link")).unwrap();
    symlink(path("not-there"), path("dangling")).unwrap();
    drop(open(&path("elsewhere")).unwrap());
    symlink(path("elsewhere"), path("link-to-report")).unwrap();
    let report = path("report");
    drop(open(&report).unwrap());
    std::fs::hard_link(&report, path("second-name")).unwrap();
    let node = |name, kind| rustix::fs::mknodat(rustix::fs::CWD, path(name), kind, Mode::RWXU, 0).unwrap();
    node("pipe", FileType::Fifo);
    node("socket", FileType::Socket);
    std::fs::create_dir(path("folder")).unwrap();
    let mut attacks =
        vec!["link", "link-to-report", "dangling", "second-name", "pipe", "socket", "folder", "victim"];
    if rustix::process::geteuid().is_root() {
        let foreign = path("foreign");
        drop(open(&foreign).unwrap());
        rustix::fs::chown(&foreign, Some(Uid::from_raw(65534)), Some(Gid::from_raw(65534))).unwrap();
        attacks.push("foreign");
    }
    let device = Path::new("/dev/null");
    for attack in attacks.iter().map(|name| path(name)).chain([device.to_owned()]) {
        let begun = Instant::now();
        assert!(open(&attack).is_err(), "{} was written to", attack.display());
        assert!(begun.elapsed() < Duration::from_secs(5), "{} was waited for", attack.display());
        let readable = Report::open(&attack).is_ok();
        let is_report = ["second-name", "foreign"].iter().any(|name| attack.ends_with(name));
        assert_eq!(readable, is_report, "{}", attack.display());
    }
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    assert!(!path("not-there").exists(), "made through a link");
    println!("attacks: {} paths", attacks.len() + 1);
}

#[test]
fn a_link_that_is_put_there_in_between_is_never_followed() {
    let folder = Folder::new();
    let (path, victim) = (folder.path("report"), folder.path("victim"));
    std::fs::write(&victim, b"precious").unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = symlink(&victim, &path);
                let _ = std::fs::remove_file(&path);
            }
        });
        for _ in 0..300 {
            if let Ok(file) = open(&path) {
                // If it lost the race, the attacker has deleted it; it was made anew all the same, and not through a link.
                let _ = file.check();
            }
            assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(
        std::fs::read_dir(&folder).unwrap().count() - usize::from(path.symlink_metadata().is_ok()),
        1,
        "nothing is left over"
    );
    println!("attacks: 300 races");
}

#[test]
fn what_a_killed_maker_of_the_file_has_left_goes_and_nothing_else_does() {
    let folder = Folder::new();
    let named = |name: &str| folder.path(name);
    let id = "0123456789abcdef0123456789abcdef";
    let (left, young, held) = (format!(".r.{id}"), format!(".r.f{}", &id[1..]), format!(".r.e{}", &id[1..]));
    let others = [format!(".other.{id}"), ".r.notes".into(), format!("r.{id}"), format!(".r.{id}~")];
    let old = std::time::SystemTime::now() - Duration::from_secs(120);
    let make = |name: &String| {
        let file = std::fs::File::create(named(name)).unwrap();
        file.set_modified(old).unwrap();
        file
    };
    let _ = make(&left);
    make(&young).set_modified(std::time::SystemTime::now()).unwrap();
    let being_made = make(&held);
    rustix::fs::flock(&being_made, rustix::fs::FlockOperation::LockExclusive).unwrap();
    others.iter().for_each(|other| drop(make(other)));
    symlink(named(&others[1]), named(&format!(".r.d{}", &id[1..]))).unwrap();
    drop(open(&named("r")).unwrap());
    assert!(!named(&left).exists());
    for name in [&young, &held].into_iter().chain(&others) {
        assert!(named(name).exists(), "{name}");
    }
}
