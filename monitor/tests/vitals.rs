//! Vitals of this very process, changed by what the tests do. Bounds are wide: the machine may be busy with something else.
#![cfg(any(target_os = "linux", target_os = "macos"))]

use freezeframe_monitor::vitals::{Builder, Frames, Vitals};
use freezeframe_monitor::{Activity, Monitor};
use freezeframe_report::file::Size;
use freezeframe_report::read::Report;
use freezeframe_unwind::threads::{ThreadId, current, facts, list};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const MB: u64 = 1 << 20;

/// One test at a time: they measure what the others would disturb.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Vitals every 50 ms, and what one of the callbacks was told.
fn vitals<T: Send + 'static>(
    ask: impl FnOnce(Builder, Box<dyn Fn(T) + Send>) -> Builder,
) -> (Vitals, Receiver<T>) {
    let (send, receive) = channel();
    // Nobody listens any more when the test ends.
    let told = Box::new(move |value| drop(send.send(value)));
    let builder = Vitals::builder().interval(Duration::from_millis(50));
    (ask(builder, told).start().unwrap(), receive)
}

/// What is told from now on. A look may have begun before now: its value is the one that is passed over.
fn fresh<T>(told: &Receiver<T>) -> T {
    while told.try_recv().is_ok() {}
    told.recv_timeout(PATIENCE).unwrap();
    told.recv_timeout(PATIENCE).unwrap()
}

/// The names of this process's threads.
fn thread_names() -> Vec<String> {
    let mut ids = [ThreadId(0); 256];
    let count = list(&mut ids).unwrap();
    let names = ids[..count].iter().map(|id| String::from_utf8_lossy(facts(*id).name.bytes()).into_owned());
    names.collect()
}

/// The thread's name, as far as Linux keeps it.
const OUR_THREAD: &str = "freezeframe-vit";

/// A thread that computes until it is told to stop.
fn burner(stop: &Arc<AtomicBool>) -> (ThreadId, std::thread::JoinHandle<()>) {
    let (stop, (send, receive)) = (stop.clone(), channel());
    let thread = std::thread::Builder::new().name("burner".into()).spawn(move || {
        send.send(current()).unwrap();
        while !stop.load(Ordering::Relaxed) {
            std::hint::black_box((0..1000u64).sum::<u64>());
        }
    });
    (receive.recv().unwrap(), thread.unwrap())
}

#[test]
fn a_thread_that_computes_is_the_busiest_and_makes_most_of_the_processs_cpu_time() {
    let _turn = turn();
    let stop = Arc::new(AtomicBool::new(false));
    let (id, thread) = burner(&stop);
    let (send, receive) = channel();
    let of_process = send.clone();
    let vitals = Vitals::builder()
        .interval(Duration::from_millis(200))
        .on_process_cpu(move |cpu| drop(of_process.send((cpu, None))))
        .on_thread_cpu(move |threads| {
            drop(threads.first().map(|busiest| send.send((busiest.cpu, Some(busiest.clone())))))
        })
        .start()
        .unwrap();
    let mut told = (0..6).map(|_| receive.recv_timeout(PATIENCE).unwrap()).collect::<Vec<_>>();
    stop.store(true, Ordering::Relaxed);
    drop(vitals);
    thread.join().unwrap();
    let (of_threads, of_process): (Vec<_>, Vec<_>) = told.drain(..).partition(|(_, thread)| thread.is_some());
    assert!(of_threads.len() >= 2 && of_process.len() >= 2);
    for (_, busiest) in &of_threads {
        let busiest = busiest.as_ref().unwrap();
        assert_eq!((busiest.thread, busiest.name.as_str()), (id, "burner"));
        assert!(busiest.cpu.window_ns >= 150_000_000, "{busiest:?}");
        // However loaded the machine: it has no more than one processor, and not nothing.
        assert!((1.0..120.0).contains(&busiest.cpu.percent()), "{busiest:?}");
    }
    let (threads, process): (u64, u64) = (
        of_threads.iter().map(|(cpu, _)| cpu.cpu_ns).sum(),
        of_process.iter().map(|(cpu, _)| cpu.cpu_ns).sum(),
    );
    // The looks at the two are not at one instant, and their numbers may differ by one.
    assert!(threads * 2 > process && threads < process * 4, "{threads} ns of {process} ns");
}

#[test]
fn memory_that_is_touched_is_in_the_footprint_and_leaves_it_again() {
    let _turn = turn();
    let (_vitals, told) = vitals(|builder, told| builder.on_memory(told));
    let before = fresh(&told);
    let touched = std::hint::black_box(vec![1u8; 64 << 20]);
    let with = fresh(&told);
    drop(touched);
    let after = fresh(&told);
    for (with, before, after) in [
        (with.footprint_bytes, before.footprint_bytes, after.footprint_bytes),
        (with.resident_bytes, before.resident_bytes, after.resident_bytes),
    ] {
        let (grown, given_back) = (with.saturating_sub(before), with.saturating_sub(after));
        assert!((56 * MB..80 * MB).contains(&grown), "{grown} bytes more");
        assert!((56 * MB..80 * MB).contains(&given_back), "{given_back} bytes less");
    }
}

#[test]
fn files_that_are_opened_are_counted() {
    let _turn = turn();
    let (_vitals, told) = vitals(|builder, told| builder.on_open_files(told));
    let before = fresh(&told);
    let files: Vec<_> = (0..50).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
    let with = fresh(&told);
    drop(files);
    assert_eq!(with.open, before.open + 50);
    assert_eq!(fresh(&told).open, before.open);
    let limit = with.limit.unwrap_or(u32::MAX);
    assert!(with.open < limit, "{with:?}");
}

#[test]
fn the_machines_memory_is_told_as_used_and_available() {
    let _turn = turn();
    let (_vitals, told) = vitals(|builder, told| builder.on_available_memory(told));
    let memory = fresh(&told);
    assert!(memory.available_bytes > 0 && memory.available_bytes < memory.total_bytes, "{memory:?}");
    assert_eq!(memory.used_bytes() + memory.available_bytes, memory.total_bytes);
}

#[test]
fn frames_are_told_once_there_are_any() {
    let _turn = turn();
    let frames = Frames::new();
    let asked = frames.clone();
    let (_vitals, told) = vitals(move |builder, told| builder.on_frames(&asked, told));
    assert!(told.recv_timeout(Duration::from_millis(300)).is_err(), "nobody draws");
    (0..30).for_each(|_| frames.tick());
    let rate = told.recv_timeout(PATIENCE).unwrap();
    assert!((0.0..=30.0).contains(&rate), "it may be asked for while they are drawn: {rate}");
    let begun = Instant::now();
    while told.recv_timeout(PATIENCE).unwrap() > 0.0 {
        assert!(begun.elapsed() < PATIENCE);
    }
}

#[test]
fn without_a_question_there_is_no_thread_and_with_one_it_ends_at_once() {
    let _turn = turn();
    let ours = || thread_names().iter().any(|name| name.starts_with(OUR_THREAD));
    // Another test's may be about to end.
    let begun = Instant::now();
    while ours() {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
    let vitals = Vitals::builder().start().unwrap();
    assert!(!ours());
    drop(vitals);
    let (send, receive) = channel();
    let vitals =
        Vitals::builder().interval(Duration::from_secs(3600)).on_open_files(move |_| send.send(()).unwrap());
    let vitals = vitals.start().unwrap();
    receive.recv_timeout(PATIENCE).expect("the first look is at once");
    assert!(ours());
    let begun = Instant::now();
    drop(vitals);
    assert!(begun.elapsed() < Duration::from_secs(30), "an hour before the second look");
    assert!(receive.recv_timeout(PATIENCE).is_err(), "the callback is gone");
}

#[test]
fn a_callback_that_panics_or_hangs_hurts_nobody() {
    let _turn = turn();
    let (send, receive) = channel();
    let vitals = Vitals::builder()
        .interval(Duration::from_millis(10))
        .on_memory(|_| panic!("the others are told all the same"))
        .on_open_files(move |_| {
            let _ = send.send(());
        })
        .start()
        .unwrap();
    (0..3).for_each(|_| receive.recv_timeout(PATIENCE).unwrap());
    drop(vitals);
    let ((enter, entered), (end, ended)) = (channel(), channel::<()>());
    let vitals = Vitals::builder().on_open_files(move |_| {
        enter.send(()).unwrap();
        let _ = ended.recv();
    });
    let vitals = vitals.start().unwrap();
    entered.recv_timeout(PATIENCE).unwrap();
    let begun = Instant::now();
    drop(vitals);
    assert!(begun.elapsed() < Duration::from_secs(30), "it is not waited for until it ends");
    drop(end);
}

#[test]
fn a_report_tells_how_the_process_was() {
    let _turn = turn();
    let path = std::env::temp_dir().join(format!("freezeframe-vitals-{}.ffr", std::process::id()));
    let (frames, (send, receive)) = (Frames::new(), channel());
    let (monitor, beacon) = Monitor::builder("main")
        .report_file(&path, Size::default())
        .frames(&frames)
        .on_freeze(move |freeze| drop(send.send(freeze.record.clone())))
        .watch_run_loop()
        .unwrap();
    let files: Vec<_> = (0..50).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
    (0..30).for_each(|_| frames.tick());
    beacon.transition(Activity::Entry);
    beacon.transition(Activity::AfterWaiting);
    // Frozen, and computing, until it is noticed.
    while receive.try_recv().is_err() {
        std::hint::black_box((0..1000u64).sum::<u64>());
    }
    beacon.transition(Activity::BeforeWaiting);
    beacon.transition(Activity::Exit);
    monitor.stop();
    let report = Report::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(report.is_whole());
    let vitals = report.records[0].vitals.as_ref().unwrap();
    assert!(vitals.open_files.unwrap() >= files.len() as u32 + 3, "{vitals:?}");
    assert_eq!(vitals.frames_per_second, Some(30.0), "before the freeze, not in it");
    assert!(vitals.footprint_bytes.unwrap() > MB && vitals.resident_bytes.unwrap() > MB, "{vitals:?}");
    let memory = vitals.memory.unwrap();
    assert!(memory.available_bytes < memory.total_bytes, "{memory:?}");
    let cpu = vitals.cpu.unwrap();
    assert!(cpu.window_ns > 0 && cpu.cpu_ns > 0 && cpu.percent < 10_000.0, "{cpu:?}");
}
