//! Writers that are killed at random instants.
//!
//! A worker forks a writer, kills it, and compares what the file holds with what the writer says in memory that both share.
//! Nothing that the writer has seen committed may be missing or different; nothing else may look whole.

use super::samples::{SIZE, Samples};
use freezeframe_report::file::ReportFile;
use freezeframe_report::layout::{FIRST_SLOT, Outcome, PAYLOAD};
use freezeframe_report::read::{Record, Report};
use freezeframe_report::ring::{Live, Owner};
use freezeframe_scenarios::{Child, Folder, Property};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How many of its own records a writer leaves unread.
const UNREAD: usize = 6;
/// Up to this long a writer lives, in nanoseconds.
const LIFE_NS: u64 = 2_500_000;
const SHM: &str = "/dev/shm";

/// What a writer says of itself.
#[derive(Default)]
struct Said {
    /// The number of the record that it writes or has written.
    begun: AtomicU64,
    /// The last one whose commit it has seen, and the last whose duration is final.
    committed: AtomicU64,
    updated: AtomicU64,
    /// This one and all before may have been freed.
    freed: AtomicU64,
}

pub(crate) fn prove(kills: u64) -> bool {
    let how =
        "a stream of records into a file on tmpfs, its writer killed and the file compared byte by byte";
    let mut property = Property::new("what was committed survives a kill, and nothing torn looks whole", how);
    let folder = Folder::new(Path::new(SHM));
    let workers: Vec<_> = (0..2u64)
        .map(|worker| {
            let kills = (kills / 2).to_string();
            let seed = (worker + 1).to_string();
            Child::start(&["kill", &kills, &seed, &folder.path().to_string_lossy()], &[])
        })
        .collect();
    let ended: Vec<_> = workers.into_iter().map(|worker| worker.end(Duration::from_secs(900))).collect();
    for worker in &ended {
        property.expect(worker.is_well(), || format!("{:?}\n{}", worker.status, worker.output));
    }
    let sum = |name: &str| ended.iter().map(|worker| worker.count(name)).sum::<u64>();
    property.expect(sum("inside") > sum("kills") / 20, || "hardly any kill hit a record".into());
    property.expect(sum("stacks") > 0, || "no prefix with a stack was salvaged".into());
    property.conclude(&format!(
        "{} kills, {} of them in the middle of a record; {} records committed, {} prefixes salvaged, {} of these with the \
         main stack; 0 lost, 0 torn ones taken as whole",
        sum("kills"),
        sum("inside"),
        sum("committed"),
        sum("salvaged"),
        sum("stacks"),
    ))
}

pub(crate) fn worker(kills: u64, seed: u64, folder: &Path) {
    let samples = Samples::take();
    let path = folder.join(format!("kills-{seed}.ffr"));
    drop(ReportFile::open(&path, SIZE, Owner::this_process().expect("/proc")).expect("a new file"));
    let frames: Vec<usize> = (0..3).map(|kind| frames_of_first(&samples.record(kind), folder)).collect();
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (mut committed, mut inside, mut salvaged, mut stacks) = (0, 0, 0, 0);
    for kill in 0..kills {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // Numbers never come again.
        let first = kill << 20 | 1;
        let said = shared();
        said.begun.store(first - 1, Ordering::SeqCst);
        said.committed.store(first - 1, Ordering::SeqCst);
        // SAFETY: this process has one thread.
        let writer = unsafe { libc::fork() };
        assert!(writer >= 0, "no process to kill");
        if writer == 0 {
            let _ = std::panic::catch_unwind(|| stream(&samples, &path, first, said));
            // SAFETY: a writer that fails must not go on as the worker that it is a copy of.
            unsafe { libc::_exit(1) };
        }
        pause(random % LIFE_NS);
        let mut status = 0;
        // SAFETY: the child made above.
        unsafe {
            libc::kill(writer, libc::SIGKILL);
            libc::waitpid(writer, &mut status, 0);
        }
        assert_eq!(status, libc::SIGKILL, "the writer did not live until it was killed");
        let load = |number: &AtomicU64| number.load(Ordering::SeqCst);
        let in_flight = Some(load(&said.begun)).filter(|begun| *begun > load(&said.committed));
        committed += load(&said.committed) - (first - 1);
        inside += u64::from(in_flight.is_some());
        let prefix = compare(&path, &samples, said, in_flight);
        salvaged += u64::from(prefix.is_some());
        if let Some(record) = prefix
            && let Some(thread) = record.threads.first()
        {
            let expected =
                frames[in_flight.expect("a prefix is of what was written") as usize % frames.len()];
            assert_eq!(thread.frames.len(), expected, "the salvaged stack is not whole");
            stacks += 1;
        }
        Report::take(&path).expect("the file is readable, and nobody's");
        // SAFETY: made by `shared`, and not used any more.
        unsafe { libc::munmap(std::ptr::from_ref(said).cast_mut().cast(), size_of::<Said>()) };
    }
    println!("kills={kills} inside={inside} committed={committed} salvaged={salvaged} stacks={stacks}");
}

/// Compares the file with what its writer has said. Returns the part of a record that was found.
fn compare(path: &Path, samples: &Samples, said: &Said, in_flight: Option<u64>) -> Option<Record> {
    let file = File::open(path).expect("the file is there");
    let report = Report::open(path).expect("the file is readable");
    assert!(report.torn.is_empty(), "{:?}", report.torn);
    let mut found = HashMap::new();
    let mut prefix = None;
    for record in report.records {
        let uuid = record.uuid.replace('-', "");
        let number = u64::try_from(u128::from_str_radix(&uuid, 16).expect("a UUID")).expect("a number");
        let expected = samples.record(number);
        let at = (FIRST_SLOT + record.slot * SIZE.stride as usize) as u64;
        let mut header = [0; 64];
        file.read_exact_at(&mut header, at).expect("a header");
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (state, valid, whole) = (word(0), word(4) as usize, word(44) as usize);
        let length = if record.complete { whole } else { valid };
        let mut payload = vec![0; length];
        file.read_exact_at(&mut payload, at + PAYLOAD as u64).expect("a payload");
        assert!(payload == expected[..length.min(expected.len())], "record {number} differs");
        if record.complete {
            assert_eq!((state, length), (2, expected.len()), "record {number} is taken as whole");
            if number <= said.updated.load(Ordering::SeqCst) {
                assert_eq!(record.duration_ns, 1_000_000_000 + number, "record {number} lost its duration");
            }
            assert_eq!(found.insert(number, record.slot), None, "record {number} is there twice");
        } else {
            assert_eq!((state, Some(number)), (1, in_flight), "a record that was not in the making is torn");
            assert!(prefix.replace(record).is_none(), "two records are torn");
        }
    }
    let (freed, committed) = (said.freed.load(Ordering::SeqCst), said.committed.load(Ordering::SeqCst));
    let first = (committed >> 20 << 20) + 1;
    for number in first.max(freed + 1)..=committed {
        assert!(found.contains_key(&number), "record {number} was committed, and is lost");
    }
    prefix
}

/// Writes records until it is killed.
fn stream(samples: &Samples, path: &Path, first: u64, said: &Said) -> ! {
    let owner = Owner::this_process().expect("/proc");
    let file = ReportFile::open(path, SIZE, owner).expect("the file is this writer's");
    let mut unread = VecDeque::new();
    for number in first.. {
        let record = samples.record(number);
        said.begun.store(number, Ordering::SeqCst);
        let mut slot = file.ring().write(&record).expect("a free slot");
        said.committed.store(number, Ordering::SeqCst);
        file.ring().update(&mut slot, Live::new(500_000_000, Outcome::Ongoing));
        file.ring().update(&mut slot, Live::new(1_000_000_000 + number, Outcome::Recovered));
        said.updated.store(number, Ordering::SeqCst);
        unread.push_back((number, slot.sequence()));
        if unread.len() > UNREAD
            && let Some((oldest, sequence)) = unread.pop_front()
        {
            said.freed.store(oldest, Ordering::SeqCst);
            let freed = (0..SIZE.slots as usize).any(|slot| file.ring().consume(slot, sequence));
            assert!(freed, "what was written was not there to be freed");
        }
    }
    unreachable!("it is killed before")
}

/// How many frames the first thread of a record has.
fn frames_of_first(record: &[u8], folder: &Path) -> usize {
    let path = folder.join(format!("sample-{}.ffr", std::process::id()));
    let file = ReportFile::open(&path, SIZE, Owner::this_process().expect("/proc")).expect("a new file");
    file.ring().write(record).expect("a free slot");
    let report = Report::open(&path).expect("the file is readable");
    std::fs::remove_file(&path).expect("it goes away");
    assert!(report.is_whole());
    let frames = report.records[0].threads[0].frames.len();
    assert!(frames > 4, "the main stack has {frames} frames");
    frames
}

fn shared() -> &'static Said {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping of zeros, which is a valid value; unmapped by who is done with it.
    unsafe {
        let memory = libc::mmap(std::ptr::null_mut(), size_of::<Said>(), protection, flags, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        &*memory.cast::<Said>()
    }
}

fn pause(ns: u64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: ns as libc::c_long };
    // SAFETY: reads the time.
    unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
}
