//! While a loop is frozen its thread may be in the middle of the allocator: the watcher allocates nothing.
#![cfg(target_os = "linux")]

use freezeframe_monitor::{Activity, Monitor};
use freezeframe_report::file::Size;
use freezeframe_report::read::Report;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Counts what one thread allocates, and remembers how large the last of it was.
struct Counting;

static WATCHER: AtomicI32 = AtomicI32::new(0);
static COUNT: AtomicU32 = AtomicU32::new(0);
static LAST: AtomicU32 = AtomicU32::new(0);

// SAFETY: the system's allocator, asked for the same.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: no arguments.
        if WATCHER.load(Ordering::Relaxed) == unsafe { libc::gettid() } {
            COUNT.fetch_add(1, Ordering::Relaxed);
            LAST.store(layout.size() as u32, Ordering::Relaxed);
        }
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn watcher() -> i32 {
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        if std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name == "freezeframe\n") {
            return task.file_name().to_str().unwrap().parse().unwrap();
        }
    }
    panic!("there is no watcher");
}

#[test]
fn the_watcher_allocates_nothing_from_the_first_tick_of_a_silence_to_the_end_of_the_freeze() {
    let path = std::env::temp_dir().join(format!("freezeframe-allocations-{}.ffr", std::process::id()));
    let (monitor, beacon) = Monitor::builder("loop")
        .report_file(&path, Size::default())
        .on_freeze(|freeze| drop(freeze.component.to_owned()))
        .enrich(|_, values| {
            values.set("name", "value");
        })
        .never_idle(Duration::from_secs(3600))
        .cpu_high(1_000_000, Duration::from_secs(3600))
        .watch_run_loop()
        .unwrap();
    monitor.breadcrumb("begins");
    beacon.transition(Activity::Entry);
    beacon.transition(Activity::AfterWaiting);
    beacon.transition(Activity::BeforeWaiting);
    std::thread::sleep(Duration::from_millis(200));
    WATCHER.store(watcher(), Ordering::Relaxed);
    for round in 1..=4 {
        beacon.transition(Activity::AfterWaiting);
        let begun = Instant::now();
        while monitor.statistics().freezes < round {
            assert!(begun.elapsed() < Duration::from_secs(60), "no freeze");
            std::thread::sleep(Duration::from_millis(700));
        }
        beacon.transition(Activity::BeforeWaiting);
        std::thread::sleep(Duration::from_millis(200));
    }
    let (count, last) = (COUNT.load(Ordering::Relaxed), LAST.load(Ordering::Relaxed));
    WATCHER.store(0, Ordering::Relaxed);
    monitor.stop();
    let records = Report::open(&path).unwrap().records;
    std::fs::remove_file(&path).unwrap();
    assert!(records.len() >= 2 && records[0].samples.is_some(), "{}", records.len());
    assert_eq!(count, 0, "the last was of {last} bytes");
}
