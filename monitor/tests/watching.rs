//! Monitors on real threads. Bounds on real time are wide: they tell a bounded wait from a hang.
#![cfg(any(target_os = "linux", target_os = "macos"))]

use freezeframe_monitor::{Activity, AppState, Beacon, Monitor, Phase, Ping, PingTarget, StartError};
use freezeframe_report::file::Size;
use freezeframe_report::read::{HeldHow, Record, RecordOutcome, RecordStrategy, Report, SetHow};
use freezeframe_report::show::Symbols;
use freezeframe_unwind::threads::{ThreadId, current};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// Whether a thread was read whole, in one of this system's ways.
fn is_read_whole(how: HeldHow) -> bool {
    match how {
        HeldHow::Mach => cfg!(target_vendor = "apple"),
        HeldHow::Peek | HeldHow::Signal | HeldHow::Ptrace => cfg!(target_os = "linux"),
        _ => false,
    }
}

/// One test at a time: they measure what the others would disturb.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn file() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name =
        format!("freezeframe-monitor-{}-{}.ffr", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    std::env::temp_dir().join(name)
}

/// Reads the records and removes the file.
fn records(file: &Path) -> Vec<Record> {
    let mut report = Report::open(file).unwrap();
    assert!(
        report.is_whole(),
        "{:?} {:?}",
        report.torn,
        report.records.iter().map(|r| &r.faults).collect::<Vec<_>>()
    );
    std::fs::remove_file(file).unwrap();
    let mut symbols = Symbols::new();
    report.records.iter_mut().for_each(|record| symbols.name_frames(record));
    report.records
}

/// The names in the watched thread's stack, innermost first.
fn names(record: &Record) -> Vec<&str> {
    let frames = &record.watched().expect("the watched thread is in the record").frames;
    frames.iter().filter_map(|frame| frame.symbol.as_ref()).map(|symbol| symbol.name.as_str()).collect()
}

fn turns(beacon: &Beacon, count: u32) {
    for _ in 0..count {
        beacon.transition(Activity::BeforeTimers);
        beacon.transition(Activity::BeforeSources);
        beacon.transition(Activity::BeforeWaiting);
        std::thread::sleep(Duration::from_millis(1));
        beacon.transition(Activity::AfterWaiting);
    }
}

/// Does not return before `done`: however long a stalled machine takes to notice.
#[inline(never)]
fn freeze_outer(done: &dyn Fn() -> bool) {
    freeze_inner(done);
    std::hint::black_box(());
}

#[inline(never)]
fn freeze_inner(done: &dyn Fn() -> bool) {
    while !done() {
        std::thread::sleep(Duration::from_millis(400));
    }
    std::hint::black_box(());
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} did not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_freeze_is_reported_while_it_lasts_with_its_stack_and_closed_with_its_duration() {
    let _turn = turn();
    let path = file();
    let (send, events) = mpsc::channel();
    let (monitor, beacon) = Monitor::builder("the loop")
        .report_file(&path, Size::default())
        .app("test.app", "9.9")
        .on_freeze(move |freeze| send.send((freeze.phase, freeze.duration, freeze.record.clone())).unwrap())
        .watch_run_loop()
        .unwrap();
    monitor.set_app_state(AppState::Foreground);
    beacon.transition(Activity::Entry);
    turns(&beacon, 20);
    let begun = Instant::now();
    freeze_outer(&|| monitor.statistics().freezes == 1 && begun.elapsed() > Duration::from_millis(700));
    let lasted = begun.elapsed();
    turns(&beacon, 100);
    let statistics = monitor.statistics();
    monitor.stop();
    let events: Vec<_> = events.try_iter().collect();
    assert_eq!(statistics.freezes, 1);
    let phases: Vec<_> = events.iter().map(|e| e.0).collect();
    assert_eq!((phases.first(), phases.last()), (Some(&Phase::Detected), Some(&Phase::Recovered)));
    // From 500 ms on it is more severe, from 2 s on again.
    assert!(phases[1..phases.len() - 1].iter().all(|phase| *phase == Phase::Worsened), "{phases:?}");
    assert!(events[0].1 >= Duration::from_millis(250) && events[0].1 < lasted, "never before the threshold");
    assert_eq!(events[0].2, Ok(Some(1)));

    let records = records(&path);
    assert_eq!(records.len(), 1);
    let record = &records[0];
    assert_eq!((record.outcome, record.strategy), (RecordOutcome::Recovered, RecordStrategy::RunLoop));
    let recorded = Duration::from_nanos(record.duration_ns);
    assert!(recorded <= lasted + Duration::from_millis(1), "{recorded:?} {lasted:?}");
    // On a machine so loaded that the watcher starves, the time in which it did does not count.
    assert!(
        recorded >= Duration::from_millis(if statistics.late_ticks == 0 { 700 } else { 250 }),
        "{recorded:?}"
    );
    assert_eq!((record.component.as_str(), record.last_activity), ("the loop", Some("AfterWaiting")));
    let process = record.process.as_ref().unwrap();
    assert_eq!((process.app.as_str(), process.app_state), ("test.app", "foreground"));
    assert!(process.cpu_ns.unwrap() > 0 && process.footprint_bytes.unwrap() > 1 << 20, "{process:?}");
    assert!(record.times.continuous_ns.unwrap() >= record.times.detected_ns);
    let watched = record.watched().unwrap();
    assert_eq!((watched.id, watched.moved), (current().0 as u32, false));
    assert!(is_read_whole(watched.held.how), "{:?}", watched.held);
    assert_eq!(watched.held.ns > 0, watched.held.how != HeldHow::Peek, "a peek holds nobody");
    assert!(record.times.held_longest_ns >= watched.held.ns);
    let names = names(record);
    let place = |wanted: &str| names.iter().position(|name| *name == wanted);
    let (inner, outer) = (place("watching::freeze_inner"), place("watching::freeze_outer"));
    assert!(inner.is_some() && inner < outer, "{names:#?}");
    assert!(
        record.threads.iter().all(|thread| !thread.name.starts_with("freezeframe")),
        "the watcher is left out"
    );
}

/// Linux counts a thread's context switches.
#[cfg(target_os = "linux")]
#[test]
fn an_idle_loop_does_not_cost_the_watcher_one_context_switch() {
    let _turn = turn();
    wait_for("the end of earlier watchers", || watcher_switches().is_none());
    let (monitor, beacon) = Monitor::builder("idle").watch_run_loop().unwrap();
    beacon.transition(Activity::Entry);
    turns(&beacon, 10);
    beacon.transition(Activity::BeforeWaiting);
    // It looks once more when a whole timeout has passed, and is parked then.
    wait_for("parking", || {
        let before = watcher_switches();
        std::thread::sleep(Duration::from_millis(300));
        watcher_switches() == before
    });
    let before = watcher_switches();
    assert!(before.is_some(), "there is a watcher");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(watcher_switches(), before, "voluntary and involuntary context switches of the watcher");
    // It is awake again as soon as there is something to watch.
    turns(&beacon, 50);
    wait_for("the watcher", || watcher_switches() != before);
    monitor.stop();
}

/// The watcher's own counters.
#[cfg(target_os = "linux")]
fn watcher_switches() -> Option<(u64, u64)> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let mut statuses =
        tasks.map(|task| std::fs::read_to_string(task.path().join("status")).unwrap_or_default());
    let status = statuses.find(|status| status.starts_with("Name:\tfreezeframe\n"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|number| number.trim().parse().ok()).expect("a counter")
    };
    Some((field("voluntary_ctxt_switches:"), field("nonvoluntary_ctxt_switches:")))
}

#[test]
fn a_second_monitor_of_one_loop_is_an_error_until_the_first_has_stopped() {
    let _turn = turn();
    let (monitor, _beacon) = Monitor::builder("one").watch_run_loop().unwrap();
    assert!(matches!(Monitor::builder("two").watch_run_loop(), Err(StartError::AlreadyWatched)));
    struct Never;
    impl PingTarget for Never {
        fn post(&mut self, _: Ping) {}
    }
    let ping = Monitor::builder("three").watch_by_ping(Never, current());
    assert!(matches!(ping, Err(StartError::AlreadyWatched)), "by another strategy neither");
    let other = std::thread::spawn(|| {
        Monitor::builder("another thread's").watch_run_loop().map(|(monitor, _)| monitor.stop())
    });
    assert!(other.join().unwrap().is_ok());
    monitor.stop();
    assert!(Monitor::builder("four").watch_run_loop().is_ok());
}

#[test]
fn thresholds_that_make_no_sense_are_refused() {
    let _turn = turn();
    for builder in [
        Monitor::builder("x").interval(Duration::ZERO),
        Monitor::builder("x").misses(0),
        Monitor::builder("x").interval(Duration::MAX),
    ] {
        assert!(matches!(builder.watch_run_loop(), Err(StartError::Threshold(_))));
    }
}

#[test]
fn stopping_does_not_wait_for_a_frozen_loop_nor_for_a_callback_that_hangs() {
    let _turn = turn();
    let path = file();
    let (detected, is_detected) = mpsc::channel();
    let (hang, hangs) = mpsc::channel::<()>();
    let hangs = Mutex::new(hangs);
    let (monitor, beacon) = Monitor::builder("frozen")
        .report_file(&path, Size::default())
        .on_freeze(move |freeze| {
            if freeze.phase == Phase::Detected {
                detected.send(()).unwrap();
                let _ = hangs.lock().unwrap().recv();
            }
        })
        .watch_run_loop()
        .unwrap();
    beacon.transition(Activity::AfterWaiting);
    // This thread is the loop, and it is frozen from here on.
    is_detected.recv().unwrap();
    let begun = Instant::now();
    monitor.stop();
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "stop took {took:?}, the callback hangs for good");
    assert!(
        Monitor::builder("again").watch_run_loop().is_ok(),
        "the claim on the loop ends with the monitor"
    );
    drop(hang);
    wait_for("the end of the record", || {
        Report::open(&path)
            .is_ok_and(|report| report.records.iter().any(|r| r.outcome != RecordOutcome::Ongoing))
    });
    let records = records(&path);
    assert_eq!((records.len(), records[0].outcome), (1, RecordOutcome::Unknown));
}

#[test]
fn stopping_from_another_thread_while_the_loop_is_frozen_closes_the_record() {
    let _turn = turn();
    let path = file();
    let (monitor, beacon) =
        Monitor::builder("frozen").report_file(&path, Size::default()).watch_run_loop().unwrap();
    beacon.transition(Activity::AfterWaiting);
    let stopper = std::thread::spawn(move || {
        wait_for("the freeze", || monitor.statistics().freezes == 1);
        let begun = Instant::now();
        monitor.stop();
        begun.elapsed()
    });
    let took = stopper.join().unwrap();
    assert!(took < Duration::from_secs(5), "{took:?}");
    // It returns within a timeout, whether or not the watcher is still writing.
    wait_for("the end of the record", || {
        Report::open(&path)
            .is_ok_and(|report| report.records.iter().any(|r| r.outcome != RecordOutcome::Ongoing))
    });
    assert_eq!(records(&path)[0].outcome, RecordOutcome::Unknown);
}

#[test]
fn nothing_is_counted_while_any_pause_is_in_force_and_resuming_starts_afresh() {
    let _turn = turn();
    let (monitor, beacon) = Monitor::builder("paused").watch_run_loop().unwrap();
    beacon.transition(Activity::AfterWaiting);
    let outer = monitor.pause();
    let inner = monitor.pause();
    std::thread::sleep(Duration::from_millis(400));
    drop(inner);
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(monitor.statistics().freezes, 0);
    let resumed = Instant::now();
    drop(outer);
    wait_for("the freeze after the pause", || monitor.statistics().freezes == 1);
    assert!(resumed.elapsed() >= Duration::from_millis(250), "the time of the pause does not count");
    monitor.stop();
}

#[test]
fn the_threshold_can_be_changed_while_it_watches() {
    let _turn = turn();
    let (monitor, beacon) =
        Monitor::builder("x").interval(Duration::from_secs(3600)).watch_run_loop().unwrap();
    monitor.set_threshold(Duration::from_millis(10), 3);
    std::thread::sleep(Duration::from_millis(50));
    // The tick that is waited for now is the old one; a loop that leaves its wait begins a new one.
    beacon.transition(Activity::AfterWaiting);
    wait_for("the freeze", || monitor.statistics().freezes == 1);
    monitor.stop();
}

#[test]
fn a_panic_in_the_callback_is_the_callbacks() {
    let _turn = turn();
    let path = file();
    let (monitor, beacon) = Monitor::builder("panics")
        .report_file(&path, Size::default())
        .on_freeze(|_| panic!("this panic belongs to the test"))
        .watch_run_loop()
        .unwrap();
    for _ in 0..2 {
        beacon.transition(Activity::AfterWaiting);
        let before = monitor.statistics().freezes;
        wait_for("a freeze", || monitor.statistics().freezes > before);
        beacon.transition(Activity::BeforeWaiting);
        std::thread::sleep(Duration::from_millis(120));
    }
    monitor.stop();
    assert_eq!(records(&path).len(), 2, "the watcher has gone on");
}

/// Mach stops threads without signals.
#[cfg(target_os = "linux")]
#[test]
fn a_frozen_thread_that_blocks_every_signal_is_reported_with_its_stack_where_the_system_has_a_way() {
    let _turn = turn();
    let path = file();
    // SAFETY: sets of the calling thread's own mask, put back below.
    let old = unsafe {
        let (mut all, mut old) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        old
    };
    let (monitor, beacon) =
        Monitor::builder("deaf").report_file(&path, Size::default()).watch_run_loop().unwrap();
    let (end, ends) = mpsc::channel::<()>();
    let (known, id) = mpsc::channel();
    let other = std::thread::spawn(move || {
        // SAFETY: as above.
        unsafe {
            let mut none = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::pthread_sigmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        }
        known.send(current()).unwrap();
        let _ = ends.recv();
    });
    let other_id = id.recv().unwrap();
    beacon.transition(Activity::AfterWaiting);
    wait_for("the freeze", || monitor.statistics().freezes == 1);
    wait_for("the record", || Report::open(&path).is_ok_and(|report| report.records.len() == 1));
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut()) };
    monitor.stop();
    drop(end);
    other.join().unwrap();
    let records = records(&path);
    let watched = records[0].watched().unwrap();
    if cfg!(target_arch = "x86_64") {
        assert!(matches!(watched.held.how, HeldHow::Peek | HeldHow::Ptrace), "{:?}", watched.held);
        assert!(watched.frames.len() > 3, "{:?}", watched.frames);
    } else {
        // An emulator can neither tell where a thread waits nor trace it.
        assert!(watched.held.how != HeldHow::Not || watched.held.why_not.is_some());
    }
    let took = records[0].times.capture_ended_ns - records[0].times.capture_started_ns;
    assert!(took < 10_000_000_000, "a bounded wait, not {took} ns");
    let other = records[0].threads.iter().find(|thread| thread.id == other_id.0 as u32).unwrap();
    assert!(is_read_whole(other.held.how) && other.frames.len() > 2, "the rest is there");
}

/// A loop of closures, watched by pings.
#[derive(Clone)]
struct Queue {
    send: mpsc::Sender<Box<dyn FnOnce() + Send>>,
    idle: Arc<AtomicBool>,
}

impl PingTarget for Queue {
    fn post(&mut self, ping: Ping) {
        let _ = self.send.send(Box::new(|| ping.answer()));
    }

    fn is_waiting(&self) -> bool {
        self.idle.load(Ordering::SeqCst)
    }
}

#[test]
fn an_unanswered_ping_is_a_freeze_and_late_answers_do_not_disturb_the_next_rounds() {
    let _turn = turn();
    let path = file();
    let (send, receive) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
    let queue = Queue { send: send.clone(), idle: Arc::default() };
    let (ready, is_ready) = mpsc::channel();
    let looper = std::thread::Builder::new().name("ping-loop".into()).spawn(move || {
        ready.send(current()).unwrap();
        receive.iter().for_each(|work| work());
    });
    let thread: ThreadId = is_ready.recv().unwrap();
    let monitor = Monitor::builder("pinged")
        .report_file(&path, Size::default())
        .record_repeats(true)
        .watch_by_ping(queue.clone(), thread)
        .unwrap();
    for _ in 0..3 {
        // Healthy rounds in between.
        std::thread::sleep(Duration::from_millis(200));
        let before = monitor.statistics().freezes;
        let noticed = Arc::new(AtomicBool::new(false));
        let done = noticed.clone();
        send.send(Box::new(move || freeze_outer(&|| done.load(Ordering::SeqCst)))).unwrap();
        wait_for("the freeze", || monitor.statistics().freezes > before);
        noticed.store(true, Ordering::SeqCst);
        wait_for("its end", || {
            Report::open(&path).unwrap().records.iter().all(|r| r.outcome == RecordOutcome::Recovered)
        });
    }
    // No ping to an idle loop.
    queue.idle.store(true, Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(200));
    monitor.stop();
    drop((send, queue));
    looper.unwrap().join().unwrap();
    // On a starved machine there may be true freezes beside those that were provoked.
    let mut records = records(&path);
    records.retain(|record| names(record).contains(&"watching::freeze_inner"));
    assert_eq!(records.len(), 3);
    for record in &records {
        assert_eq!((record.strategy, record.last_activity), (RecordStrategy::Ping, None));
        assert_eq!(
            (record.watched().unwrap().id, record.watched().unwrap().name.as_str()),
            (thread.0 as u32, "ping-loop")
        );
        let lasted = record.duration_ns / 1_000_000;
        assert!((250..=60_000).contains(&lasted), "{lasted} ms");
    }
}

#[test]
fn two_loops_that_freeze_together_are_both_captured() {
    let _turn = turn();
    let (paths, gate) = ([file(), file()], Arc::new(Mutex::new(())));
    let held = gate.lock().unwrap();
    let loops: Vec<_> = paths
        .iter()
        .cloned()
        .map(|path| {
            let gate = gate.clone();
            std::thread::spawn(move || {
                let (monitor, beacon) =
                    Monitor::builder("x").report_file(&path, Size::default()).watch_run_loop().unwrap();
                beacon.transition(Activity::AfterWaiting);
                drop(gate.lock().unwrap());
                turns(&beacon, 50);
                monitor.stop();
            })
        })
        .collect();
    wait_for("both records", || {
        paths.iter().all(|path| Report::open(path).is_ok_and(|report| report.records.len() == 1))
    });
    drop(held);
    loops.into_iter().for_each(|thread| thread.join().unwrap());
    for path in &paths {
        let records = records(path);
        assert_eq!(records.len(), 1);
        assert!(is_read_whole(records[0].watched().unwrap().held.how));
    }
}

/// Of a freeze that is watched with `together`, what the record says of the set of its threads, and how the frozen one and
/// another that waits were held.
fn holding(together: bool) -> (SetHow, [HeldHow; 2]) {
    let file = file();
    let (seen, is_seen) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let waits = std::thread::Builder::new().name("waits beside".into()).spawn(move || {
        let _ = ended.recv();
    });
    let (monitor, beacon) = Monitor::builder("main")
        .interval(Duration::from_millis(20))
        .report_file(&file, Size::default())
        .hold_together(together)
        .on_freeze(move |freeze| {
            let _ = seen.send(freeze.phase);
        })
        .watch_run_loop()
        .unwrap();
    beacon.transition(Activity::Entry);
    beacon.transition(Activity::AfterWaiting);
    freeze_outer(&|| is_seen.try_recv() == Ok(Phase::Detected));
    drop((end, beacon));
    monitor.stop();
    waits.unwrap().join().unwrap();
    let record = records(&file).remove(0);
    let other = record.threads.iter().find(|thread| thread.name == "waits beside").unwrap();
    assert!(names(&record).iter().any(|name| name.contains("freeze_inner")) && !other.frames.is_empty());
    (record.set.how, [record.watched().unwrap().held.how, other.held.how])
}

#[test]
fn threads_are_held_together_where_that_is_asked_for_and_permitted() {
    let _turn = turn();
    let (set, held) = holding(false);
    assert!(matches!(set, SetHow::OneByOne) && held.into_iter().all(is_read_whole), "{held:?}");
    let (set, held) = holding(true);
    assert_eq!(set == SetHow::OneByOne, cfg!(target_os = "macos"), "that is what was asked for");
    assert!(held.into_iter().all(is_read_whole), "{held:?}");
    assert_eq!(set == SetHow::Together, held.contains(&HeldHow::Ptrace), "{held:?}");
}
