//! Programs that crash with a ruined heap, on a stack that is used up, and where there is no `/proc`.

use freezeframe_monitor::crash::Reporter;
use freezeframe_monitor::{Activity, Monitor, Phase};
use freezeframe_report::file::Size;
use std::hint::black_box;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

const SIZE: Size = Size { slots: 5, stride: 256 * 1024 };
/// This system does not let a program be without `/proc`.
pub(crate) const NOT_WITHOUT_PROC: i32 = 92;

static READY: AtomicBool = AtomicBool::new(false);

fn begin(folder: &Path) {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads the limit.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
    let companion = std::thread::Builder::new().name("companion".into());
    companion.spawn(companion_waits).expect("a thread");
    while !READY.load(SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
    Reporter::to_file(folder.join("r.ffr"), SIZE)
        .app("corrupted", "1")
        .install()
        .expect("crashes can be reported");
}

#[inline(never)]
fn companion_waits() {
    READY.store(true, SeqCst);
    loop {
        std::thread::sleep(Duration::from_secs(3600));
        black_box(());
    }
}

#[inline(never)]
fn crashes() {
    // SAFETY: none. This ends the process.
    unsafe { *black_box(16 as *mut u8) = 1 };
    black_box(());
}

/// Overwrites every byte of every heap, and crashes.
pub(crate) fn with_a_ruined_heap(pattern: &str, folder: &Path) {
    begin(folder);
    // Some heap to ruin, of several sizes.
    let chunks: Vec<Vec<u8>> = (1..400).map(|n| vec![1; n * 37]).collect();
    std::mem::forget(black_box(chunks));
    let heaps = heaps();
    let (count, pattern) = (heaps.len(), pattern.parse::<u8>().ok());
    let mut heap = [(0usize, 0usize); 16];
    heap.iter_mut().zip(heaps).for_each(|(to, from)| *to = from);
    // From here on nothing on a heap is right.
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for (start, end) in heap.into_iter().take(count) {
        for at in start..end {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // SAFETY: none. What lies there is ruined.
            unsafe { (at as *mut u8).write_volatile(pattern.unwrap_or(random as u8)) };
        }
    }
    crashes();
}

/// The main heap and those of other threads: they begin at multiples of 64 MiB.
fn heaps() -> Vec<(usize, usize)> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the list of mappings");
    let parse = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        let writable = words.next()?.starts_with("rw");
        let name = words.nth(3);
        let is_heap = name == Some("[heap]") || name.is_none() && start % (64 << 20) == 0;
        (writable && is_heap).then_some((start, end))
    };
    let heaps: Vec<_> = maps.lines().filter_map(parse).collect();
    assert!(heaps.len() >= 2, "the main thread's and the companion's: {maps}");
    heaps
}

#[allow(unconditional_recursion)]
#[inline(never)]
fn recurses(depth: u64) {
    let room = black_box([depth; 8]);
    recurses(room[0] + 1);
    black_box(room);
}

/// Uses up a stack, down to its guard page.
pub(crate) fn by_an_overflow(folder: &Path) {
    begin(folder);
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(|| black_box(recurses)(0));
    let _ = thread.expect("a thread").join();
}

/// Where no file of `/proc` can be read any more: the frozen loop is reported, and the crash.
pub(crate) fn without_proc(how: &str, folder: &Path) {
    static FROZEN: AtomicBool = AtomicBool::new(false);
    // A namespace of its own, while there is one thread: the later ones are in it.
    // SAFETY: no pointers.
    let alone = unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0;
    begin(folder);
    let monitor = Monitor::builder("main").report_file(folder.join("r.ffr"), SIZE).on_freeze(|freeze| {
        if freeze.phase == Phase::Detected && matches!(freeze.record, Ok(Some(_))) {
            FROZEN.store(true, SeqCst);
        }
    });
    let (_monitor, beacon) = monitor.watch_run_loop().expect("the loop can be watched");
    let gone = match how {
        "another root" => change_root(folder),
        _ if alone => mount_over_proc(),
        _ => None,
    };
    if gone.is_none() || std::fs::metadata("/proc/self").is_ok() {
        // SAFETY: nothing is to be written out.
        unsafe { libc::_exit(NOT_WITHOUT_PROC) };
    }
    beacon.transition(Activity::AfterWaiting);
    freezes(&FROZEN);
    crashes();
}

#[inline(never)]
fn freezes(over: &AtomicBool) {
    let begun = Instant::now();
    while !over.load(SeqCst) && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    black_box(());
}

fn change_root(folder: &Path) -> Option<()> {
    let empty = folder.join("empty");
    std::fs::create_dir(&empty).ok()?;
    let path = std::ffi::CString::new(empty.to_str()?).ok()?;
    // SAFETY: a path.
    (unsafe { libc::chroot(path.as_ptr()) } == 0).then_some(())
}

/// In this process's namespace, which must not tell others.
fn mount_over_proc() -> Option<()> {
    // SAFETY: paths.
    unsafe {
        let flags = libc::MS_REC | libc::MS_PRIVATE;
        if libc::mount(null(), c"/".as_ptr(), null(), flags, null()) != 0 {
            return None;
        }
        (libc::mount(c"none".as_ptr(), c"/proc".as_ptr(), c"tmpfs".as_ptr(), 0, null_mut()) == 0)
            .then_some(())
    }
}
