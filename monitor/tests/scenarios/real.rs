//! On real threads: the loop is this thread. Bounds on real time are wide.

use super::{Scenario, scenario};
use freezeframe_monitor::{
    Activity, AppState, Beacon, Builder, Cause, Freeze, Monitor, Phase, Ping, PingTarget, Severity,
    StartError,
};
use freezeframe_report::file::Size;
use freezeframe_report::read::{CauseKind, Record, RecordKind, Report, SeverityLevel};
use freezeframe_report::show::Symbols;
use freezeframe_unwind::threads::current;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

pub(crate) fn file() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name =
        format!("freezeframe-scenario-{}-{}.ffr", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    std::env::temp_dir().join(name)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Reads the records, names their functions, and removes the file.
fn records(file: &Path) -> Vec<Record> {
    let mut report = Report::open(file).unwrap();
    assert!(report.is_whole(), "{:?} {:?}", report.torn, report.records);
    std::fs::remove_file(file).unwrap();
    let mut symbols = Symbols::new();
    report.records.iter_mut().for_each(|record| symbols.name_frames(record));
    report.records
}

/// What the program heard.
type Heard = Arc<Mutex<Vec<(Phase, Severity, Cause, bool)>>>;

fn hear(builder: Builder) -> (Builder, Heard) {
    let heard = Heard::default();
    let hears = heard.clone();
    let note = move |freeze: &Freeze<'_>| {
        let what = (freeze.phase, freeze.severity, freeze.cause, freeze.counted);
        hears.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    };
    (builder.on_freeze(note), heard)
}

/// One turn whose callback is `work`, and a wait after it.
fn turn(beacon: &Beacon, work: impl FnOnce()) {
    beacon.transition(Activity::AfterWaiting);
    work();
    beacon.transition(Activity::BeforeWaiting);
    std::thread::sleep(ms(120));
}

/// What a loop leaves behind that does `work` in its callbacks.
fn watched(
    set: impl FnOnce(Builder) -> Builder,
    work: impl FnOnce(&Monitor, &Beacon),
) -> (Vec<Record>, Monitor) {
    // The watcher of the scenario before may still wait for a hook.
    while matches!(Monitor::builder("probe").watch_run_loop(), Err(StartError::AlreadyWatched)) {
        std::thread::sleep(ms(5));
    }
    let path = file();
    let builder = set(Monitor::builder("scenario").report_file(&path, Size::default()));
    let (monitor, beacon) = builder.watch_run_loop().unwrap();
    beacon.transition(Activity::Entry);
    beacon.transition(Activity::BeforeWaiting);
    std::thread::sleep(ms(60));
    work(&monitor, &beacon);
    drop(beacon);
    std::thread::sleep(ms(120));
    (records(&path), monitor)
}

/// A name on the heaviest stack of a record.
fn leads_with(record: &Record, name: &str) -> bool {
    let stacks = record.samples.as_ref().map(|samples| &samples.stacks[..]).unwrap_or(&[]);
    let frames = stacks.first().map(|stack| &stack.frames[..]).unwrap_or(&[]);
    frames.iter().filter_map(|frame| frame.symbol.as_ref()).any(|symbol| symbol.name.contains(name))
}

fn cause_of(record: &Record) -> Option<CauseKind> {
    record.episode.as_ref().map(|episode| episode.cause)
}

fn labels_of(record: &Record) -> Vec<&'static str> {
    record.episode.as_ref().map(|episode| episode.labels.clone()).unwrap_or_default()
}

#[inline(never)]
fn short_part() {
    std::thread::sleep(ms(230));
    black_box(());
}

#[inline(never)]
fn long_part() {
    std::thread::sleep(ms(700));
    black_box(());
}

#[inline(never)]
fn both_parts() {
    short_part();
    long_part();
    black_box(());
}

#[inline(never)]
fn computes_for(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        black_box((0..1000u32).fold(0, |sum: u32, n| sum.wrapping_add(n)));
    }
}

/// A queue that no loop serves while it says that it waits: nested in a mode of its own.
#[derive(Clone)]
struct Queue {
    pings: Arc<Mutex<Vec<Ping>>>,
    posted: Arc<AtomicU32>,
    waits: Arc<AtomicBool>,
}

impl PingTarget for Queue {
    fn post(&mut self, ping: Ping) {
        self.posted.fetch_add(1, Ordering::SeqCst);
        self.pings.lock().unwrap().push(ping);
    }

    fn is_waiting(&self) -> bool {
        self.waits.load(Ordering::SeqCst)
    }
}

impl Queue {
    fn new(waits: bool) -> Self {
        Self { pings: Arc::default(), posted: Arc::default(), waits: Arc::new(AtomicBool::new(waits)) }
    }

    fn serve(&self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            let pings = std::mem::take(&mut *self.pings.lock().unwrap());
            pings.into_iter().for_each(Ping::answer);
            std::thread::sleep(ms(2));
        }
    }
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = of_loops();
    all.extend(of_reports());
    all.extend(of_hooks());
    all
}

fn of_loops() -> Vec<Scenario> {
    vec![
        scenario(
            "2",
            "a freeze in the outer callback after its nested loop returned",
            "1 freezes, nested not",
            || {
                let (records, _) = watched(
                    |builder| builder,
                    |_, beacon| {
                        turn(beacon, || {
                            beacon.transition(Activity::Entry);
                            beacon.transition(Activity::BeforeWaiting);
                            std::thread::sleep(ms(300));
                            beacon.transition(Activity::Exit);
                            long_part();
                        });
                    },
                );
                let nested = records.iter().any(|record| labels_of(record).contains(&"nested"));
                format!("{} freezes, nested{}", records.len(), if nested { "" } else { " not" })
            },
        ),
        scenario("12", "a freeze in a nested loop's callback: a modal dialogue", "1 freezes, nested", || {
            let (records, _) = watched(
                |builder| builder,
                |_, beacon| {
                    turn(beacon, || {
                        beacon.transition(Activity::Entry);
                        turn(beacon, long_part);
                        beacon.transition(Activity::Exit);
                    });
                },
            );
            let nested = records.iter().any(|record| labels_of(record).contains(&"nested"));
            format!("{} freezes, nested{}", records.len(), if nested { "" } else { " not" })
        }),
        scenario(
            "3",
            "a nested loop in a mode that serves no pings waits for events",
            "1 false alarms, 0 heard",
            || {
                let queue = Queue::new(false);
                let (builder, heard) = hear(Monitor::builder("private mode"));
                let monitor = builder.watch_by_ping(queue.clone(), current()).unwrap();
                queue.serve(ms(200));
                while queue.pings.lock().unwrap().is_empty() {
                    std::thread::yield_now();
                }
                queue.waits.store(true, Ordering::SeqCst);
                std::thread::sleep(ms(600));
                queue.waits.store(false, Ordering::SeqCst);
                queue.serve(ms(200));
                let alarms = monitor.statistics().false_alarms;
                drop(monitor);
                format!("{alarms} false alarms, {} heard", heard.lock().unwrap().len())
            },
        ),
        scenario("5", "pings to a loop that waits for a second", "0 pings, 0 freezes", || {
            let queue = Queue::new(true);
            let monitor = Monitor::builder("idle").watch_by_ping(queue.clone(), current()).unwrap();
            std::thread::sleep(ms(1000));
            format!("{} pings, {} freezes", queue.posted.load(Ordering::SeqCst), monitor.statistics().freezes)
        }),
        scenario("12", "blocked for 600 ms under a pause, and for 600 ms as expected", "0 freezes", || {
            let (records, _) = watched(
                |builder| builder,
                |monitor, beacon| {
                    turn(beacon, || {
                        let _pause = monitor.pause();
                        std::thread::sleep(ms(600));
                    });
                    turn(beacon, || {
                        let _expected = monitor.expect(ms(5000), "opens the database");
                        std::thread::sleep(ms(600));
                    });
                },
            );
            format!("{} freezes", records.len())
        }),
        scenario(
            "12",
            "blocked for longer than expected",
            "1 freezes, opens the database, whole duration",
            || {
                let (records, _) = watched(
                    |builder| builder,
                    |monitor, beacon| {
                        turn(beacon, || {
                            let _expected = monitor.expect(ms(400), "opens the database");
                            std::thread::sleep(ms(1000));
                        });
                    },
                );
                let why = records.first().and_then(|record| record.episode.as_ref()?.expected.clone());
                let whole = records.first().is_some_and(|record| record.duration_ns >= 900_000_000);
                let whole = if whole { "whole duration" } else { "not the whole duration" };
                format!("{} freezes, {}, {whole}", records.len(), why.unwrap_or_default())
            },
        ),
        scenario(
            "13",
            "a loop that turns for a second and never waits",
            "1 never idle, leads with its work",
            || {
                let (records, _) = watched(
                    |builder| builder.never_idle(ms(400)),
                    |_, beacon| {
                        let begun = Instant::now();
                        while begun.elapsed() < ms(1000) {
                            beacon.transition(Activity::AfterWaiting);
                            computes_for(Duration::from_micros(500));
                            beacon.transition(Activity::BeforeWaiting);
                        }
                        std::thread::sleep(ms(200));
                    },
                );
                let never = records.iter().filter(|record| record.kind == RecordKind::NeverIdle);
                let leads = records.iter().any(|record| leads_with(record, "computes_for"));
                format!(
                    "{} never idle, {}",
                    never.count(),
                    if leads { "leads with its work" } else { "leads elsewhere" }
                )
            },
        ),
        scenario("14", "stopping the monitor while the loop is frozen", "stopped at once", || {
            let (monitor, beacon) = Monitor::builder("stopped").watch_run_loop().unwrap();
            beacon.transition(Activity::AfterWaiting);
            while monitor.statistics().freezes == 0 {
                std::thread::sleep(ms(5));
            }
            let begun = Instant::now();
            monitor.stop();
            if begun.elapsed() < ms(2000) {
                "stopped at once".into()
            } else {
                format!("{:?}", begun.elapsed())
            }
        }),
        scenario("15", "a freeze in the background", "1 freezes, background", || {
            let (records, _) = watched(
                |builder| builder,
                |monitor, beacon| {
                    monitor.set_app_state(AppState::Background);
                    turn(beacon, long_part);
                },
            );
            let labels = records.first().map(labels_of).unwrap_or_default();
            format!("{} freezes, {}", records.len(), labels.join(" "))
        }),
    ]
}

fn of_reports() -> Vec<Scenario> {
    vec![
        scenario(
            "8",
            "230 ms in one function, then 700 ms in another",
            "leads with the longer, in order",
            || {
                let (records, _) = watched(|builder| builder, |_, beacon| turn(beacon, both_parts));
                let Some(record) = records.first() else { return "no record".into() };
                let leads = if leads_with(record, "long_part") { "the longer" } else { "the shorter" };
                let samples = record.samples.as_ref().map(|samples| &samples.samples[..]).unwrap_or(&[]);
                let order: Vec<_> = samples.iter().filter_map(|sample| sample.stack).collect();
                let first_is_short =
                    order.first().is_some_and(|stack| *stack != 0) && order.last() == Some(&0);
                format!("leads with {leads}, {}", if first_is_short { "in order" } else { "out of order" })
            },
        ),
        scenario("9", "six freezes with the same stack", "6 freezes, records 3, repeats 3", || {
            let (records, monitor) = watched(
                |builder| builder,
                |_, beacon| {
                    for _ in 0..6 {
                        turn(beacon, || std::thread::sleep(ms(320)));
                    }
                },
            );
            let repeats: u32 = records.iter().map(|record| record.repeats.count).sum();
            let freezes = monitor.statistics().freezes;
            format!("{freezes} freezes, records {}, repeats {repeats}", records.len())
        }),
        scenario(
            "9",
            "the third of a stack is only counted, unless it lasts 2.3 s",
            "records 3, repeats 0",
            || {
                let blocks = [320, 320, 2300];
                let (records, _) = watched(
                    |builder| builder,
                    |_, beacon| blocks.iter().for_each(|time| turn(beacon, || std::thread::sleep(ms(*time)))),
                );
                let repeats: u32 = records.iter().map(|record| record.repeats.count).sum();
                format!("records {}, repeats {repeats}", records.len())
            },
        ),
        scenario(
            "9",
            "three freezes on a day that may see two records",
            "3 freezes, records 2, capped 1",
            || {
                let set = |builder: Builder| builder.record_repeats(true).daily_cap(2);
                let (records, monitor) = watched(set, |_, beacon| {
                    for _ in 0..3 {
                        turn(beacon, || std::thread::sleep(ms(320)));
                    }
                });
                let statistics = monitor.statistics();
                format!(
                    "{} freezes, records {}, capped {}",
                    statistics.freezes,
                    records.len(),
                    statistics.capped
                )
            },
        ),
        scenario(
            "11",
            "computing, sleeping, a lock, a pipe, a child, a channel",
            "CpuBound Sleeping Lock Io Child Peer",
            || {
                let set = |builder: Builder| builder.record_repeats(true);
                let (records, _) = watched(set, |_, beacon| {
                    turn(beacon, || computes_for(ms(500)));
                    turn(beacon, || std::thread::sleep(ms(500)));
                    turn(beacon, || {
                        let lock = Arc::new(Mutex::new(()));
                        let (send, locked) = mpsc::channel();
                        let theirs = lock.clone();
                        let holder = std::thread::spawn(move || {
                            let _guard = theirs.lock();
                            send.send(()).unwrap();
                            std::thread::sleep(ms(500));
                        });
                        locked.recv().unwrap();
                        drop(lock.lock());
                        holder.join().unwrap();
                    });
                    turn(beacon, || {
                        let (mut reader, writer) = std::io::pipe().unwrap();
                        let slow = std::thread::spawn(move || {
                            std::thread::sleep(ms(500));
                            drop(writer);
                        });
                        let _ = std::io::Read::read(&mut reader, &mut [0]);
                        slow.join().unwrap();
                    });
                    turn(beacon, || {
                        std::process::Command::new("sleep").arg("0.5").status().unwrap();
                    });
                    turn(beacon, || {
                        let (send, receive) = mpsc::channel();
                        let slow = std::thread::spawn(move || {
                            std::thread::sleep(ms(500));
                            send.send(()).unwrap();
                        });
                        receive.recv().unwrap();
                        slow.join().unwrap();
                    });
                });
                let causes = records.iter().filter_map(cause_of).map(|cause| format!("{cause:?}"));
                if cfg!(target_arch = "x86_64") {
                    causes.collect::<Vec<_>>().join(" ")
                } else {
                    "not tested: an emulator does not tell of system calls".into()
                }
            },
        ),
        scenario("17", "what the capture cost is told, and is no part of the freeze", "apart", || {
            let mut lasted = Duration::ZERO;
            let (records, _) = watched(
                |builder| builder,
                |_, beacon| {
                    beacon.transition(Activity::AfterWaiting);
                    let begun = Instant::now();
                    std::thread::sleep(ms(500));
                    beacon.transition(Activity::BeforeWaiting);
                    lasted = begun.elapsed();
                    std::thread::sleep(ms(120));
                },
            );
            let Some(record) = records.first() else { return "no record".into() };
            let took = record.times.capture_ended_ns - record.times.capture_started_ns;
            let duration = Duration::from_nanos(record.duration_ns);
            if took > 0 && duration <= lasted + ms(1) {
                "apart".into()
            } else {
                format!("{took} ns, {duration:?}")
            }
        }),
        scenario("-", "a freeze of 2.3 s", "Micro Freeze Severe, closed as Severe", || {
            let set_and_heard = std::cell::RefCell::new(None);
            let set = |builder| {
                let (builder, heard) = hear(builder);
                *set_and_heard.borrow_mut() = Some(heard);
                builder
            };
            let (records, monitor) = watched(set, |_, beacon| turn(beacon, || std::thread::sleep(ms(2300))));
            monitor.stop();
            let heard = set_and_heard.take().unwrap();
            let heard = heard.lock().unwrap();
            let risen: Vec<_> = heard.iter().filter(|heard| heard.0 != Phase::Recovered).collect();
            let risen: Vec<_> = risen.iter().map(|heard| format!("{:?}", heard.1)).collect();
            let closed = records.first().and_then(|record| record.episode.as_ref()).map(|e| e.severity);
            format!("{}, closed as {:?}", risen.join(" "), closed.unwrap_or(SeverityLevel::Unknown))
        }),
        scenario(
            "19",
            "a thread that computes for 4 s, above half a processor for 2 s",
            "1 CPU high, leads with it",
            || {
                let (records, _) = watched(
                    |builder| builder.cpu_high(15, ms(2000)),
                    |_, _| {
                        let busy = std::thread::Builder::new()
                            .name("cruncher".into())
                            .spawn(|| computes_for(ms(4500)));
                        busy.unwrap().join().unwrap();
                    },
                );
                let high: Vec<_> =
                    records.iter().filter(|record| record.kind == RecordKind::CpuHigh).collect();
                let leads = high.first().is_some_and(|record| record.threads[0].name == "cruncher");
                format!(
                    "{} CPU high, {}",
                    high.len(),
                    if leads { "leads with it" } else { "leads elsewhere" }
                )
            },
        ),
    ]
}

fn of_hooks() -> Vec<Scenario> {
    vec![
        scenario(
            "-",
            "a filter that refuses, and values and breadcrumbs that are told",
            "0 records; 1 with both",
            || {
                let refused =
                    watched(|builder| builder.filter(|_| false), |_, beacon| turn(beacon, long_part)).0;
                let enrich = |builder: Builder| {
                    builder.enrich(|candidate, values| {
                        values.set("severity", &format!("{:?}", candidate.severity));
                    })
                };
                let (records, _) = watched(enrich, |monitor, beacon| {
                    monitor.breadcrumb("opened the window");
                    turn(beacon, long_part);
                });
                let told = records.first().and_then(|record| record.told.as_ref());
                let both = told.is_some_and(|told| {
                    told.values == [("severity".to_owned(), "Micro".to_owned())]
                        && told.breadcrumbs.first().is_some_and(|crumb| crumb.text == "opened the window")
                });
                format!(
                    "{} records; {} {}",
                    refused.len(),
                    records.len(),
                    if both { "with both" } else { "without" }
                )
            },
        ),
        scenario("-", "a hook that panics, and one that hangs", "2 records, 2 records", || {
            let two = |beacon: &Beacon| (0..2).for_each(|_| turn(beacon, || std::thread::sleep(ms(400))));
            std::panic::set_hook(Box::new(|_| {}));
            let panics =
                watched(|builder| builder.filter(|_| panic!("in a hook")), |_, beacon| two(beacon)).0;
            let _ = std::panic::take_hook();
            let (release, released) = mpsc::channel::<()>();
            let hangs = |builder: Builder| {
                builder.enrich(move |_, _| {
                    let _ = released.recv();
                })
            };
            let (hung, monitor) = watched(hangs, |_, beacon| two(beacon));
            drop(release);
            drop(monitor);
            format!("{} records, {} records", panics.len(), hung.len())
        }),
    ]
}
