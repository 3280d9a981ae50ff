//! A library that goes away, or whose tables do, under a thread that is in it.

use super::captures::{Capturer, addresses, ways};
use super::target::{self, Random};
use freezeframe_unwind::walk::Frame;
use std::ffi::{CString, c_int, c_void};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const ROUNDS: usize = 150;
const PAGE: usize = 4096;

static FUNCTION: AtomicUsize = AtomicUsize::new(0);

/// Calls the library, some calls deep, which calls back.
extern "C" fn calls_the_library() {
    // SAFETY: found by its name in the library above.
    let function: extern "C" fn(c_int, extern "C" fn()) -> c_int =
        unsafe { std::mem::transmute(FUNCTION.load(SeqCst)) };
    std::hint::black_box(function(6, target::stay));
}

/// One mapping of the library.
#[derive(Clone, Copy)]
struct Mapping {
    start: usize,
    end: usize,
    executable: bool,
}

pub(crate) fn run(how: &str, folder: &Path) {
    let library = build(folder);
    // SAFETY: a library of this program's own, which does nothing when it is loaded.
    let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null(), "the library can be loaded");
    // SAFETY: the handle of the call above.
    let function: *mut c_void = unsafe { libc::dlsym(handle, c"calls_from_the_library".as_ptr()) };
    FUNCTION.store(function as usize, SeqCst);
    let mappings = mappings(library.to_str().expect("a path"));
    assert!(mappings.len() >= 3, "headers, code, tables");

    let target = target::start(false, Some(calls_the_library));
    let mut capturer = Capturer::new();
    capturer.images.refresh().expect("the list of mappings");
    let clean = ways().map(|(_, options)| capturer.take(target.id, &options));
    let whole = clean.iter().filter(|stack| !stack.is_marked()).count();
    assert!(whole >= 3, "{whole} ways read it whole");
    let is_inside = |pc: u64| mappings.iter().any(|one| (one.start..one.end).contains(&(pc as usize)));
    let before = &clean[4].frames;
    let in_library = before.iter().filter(|frame| is_inside(frame.address.raw())).count();
    assert!(in_library >= 7, "{in_library} frames are in the library");
    // What is above the first frame of the library does not depend on it.
    let safe = before.iter().take_while(|frame| !is_inside(frame.address.raw())).count();
    assert!(safe > 1, "the target calls others");

    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut captures, mut marked) = (0, 0);
    let rounds = if how == "garbage" { ROUNDS } else { 2 };
    for round in 0..rounds {
        match how {
            // The list is the one of before: the library went away since. Then it is read again.
            "unmapped" if round == 0 => mappings.iter().for_each(|one| change(*one, None)),
            "unreadable" if round == 0 => {
                mappings
                    .iter()
                    .filter(|one| !one.executable)
                    .for_each(|one| change(*one, Some(libc::PROT_NONE)));
            }
            "garbage" => garble(&mappings, &mut random),
            _ => {
                let _ = capturer.images.refresh();
            }
        }
        // A table that was learned may be believed: half of the time it is a new one.
        if how == "garbage" && round % 2 == 1 {
            capturer = Capturer::new();
            let _ = capturer.images.refresh();
        }
        for (way, options) in ways() {
            let stack = capturer.take(target.id, &options);
            captures += 1;
            marked += usize::from(stack.is_marked());
            if stack.is_refused() {
                continue;
            }
            let above = |frames: &[Frame]| addresses(&frames[..safe.min(frames.len())]);
            assert_eq!(above(&stack.frames), above(before), "{way}: above the library");
            // With what it had learned before, the first walk is right.
            if how == "unmapped" && round > 0 {
                assert!(stack.is_marked(), "{way}: a stack through a hole claims to be whole");
            }
        }
    }
    println!("captures={captures} marked={marked}");
}

/// Takes a mapping away, or changes what may be done with it.
fn change(mapping: Mapping, protection: Option<c_int>) {
    let Mapping { start, end, .. } = mapping;
    let (at, bytes) = (start as *mut c_void, end - start);
    // SAFETY: nobody goes back into the library, or looks for anything in it.
    let result =
        unsafe { protection.map_or_else(|| libc::munmap(at, bytes), |may| libc::mprotect(at, bytes, may)) };
    assert_eq!(result, 0);
}

/// Other words in the headers and the tables: all of a page, or some of them.
fn garble(mappings: &[Mapping], random: &mut Random) {
    for mapping in mappings.iter().filter(|one| !one.executable) {
        change(*mapping, Some(libc::PROT_READ | libc::PROT_WRITE));
        for page in (mapping.start..mapping.end).step_by(PAGE) {
            let words = if random.below(3) == 0 { PAGE / 4 } else { random.below(40) };
            for _ in 0..words {
                let at = page + random.below(PAGE / 4) * 4;
                // SAFETY: inside the mapping, which may be written to since above.
                unsafe { (at as *mut u32).write_volatile(random.next() as u32) };
            }
        }
    }
}

fn mappings(path: &str) -> Vec<Mapping> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the list of mappings");
    let parse = |line: &str| {
        let mut words = line.split(' ');
        let (start, end) = words.next()?.split_once('-')?;
        let [start, end] = [start, end].map(|word| usize::from_str_radix(word, 16).ok());
        Some(Mapping { start: start?, end: end?, executable: words.next()?.contains('x') })
    };
    maps.lines().filter(|line| line.ends_with(path)).filter_map(parse).collect()
}

fn build(folder: &Path) -> CString {
    let (source, library) = (folder.join("library.c"), folder.join("liblibrary.so"));
    std::fs::write(&source, include_str!("library.c")).expect("a file");
    let status =
        Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).status();
    assert!(status.is_ok_and(|status| status.success()), "cc builds a library");
    CString::new(library.to_str().expect("a path")).expect("no zero byte")
}
