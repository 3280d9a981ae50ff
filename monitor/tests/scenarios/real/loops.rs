//! What loops do: nested runs, pings, pauses, livelocks.

use super::*;

pub(super) fn scenarios() -> Vec<Scenario> {
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
        scenario(
            "5",
            "pings answered late, twice: the rounds after that",
            "2 records of 600 to 900 ms",
            || {
                let (queue, path) = (Queue::new(false), file());
                let builder =
                    Monitor::builder("late").report_file(&path, Size::default()).record_repeats(true);
                let monitor = builder.watch_by_ping(queue.clone(), current()).unwrap();
                queue.serve(ms(200));
                for _ in 0..2 {
                    std::thread::sleep(ms(750));
                    // What was asked before is answered now, and must not count for what is asked next.
                    queue.serve(ms(400));
                }
                drop(monitor);
                let lasted: Vec<u64> =
                    records(&path).iter().map(|record| record.duration_ns / 1_000_000).collect();
                match lasted.iter().all(|lasted| (600..=900).contains(lasted)) {
                    true => format!("{} records of 600 to 900 ms", lasted.len()),
                    false => format!("records of {lasted:?} ms"),
                }
            },
        ),
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
            "12",
            "two announcements, taken back in any order, then 600 ms",
            "2 freezes, 0 expected",
            || {
                let set = |builder: Builder| builder.record_repeats(true);
                let (records, _) = watched(set, |monitor, beacon| {
                    for first_first in [true, false] {
                        let one = monitor.expect(ms(60_000), "one");
                        let other = monitor.expect(Duration::MAX, "other");
                        let (first, second) = if first_first { (one, other) } else { (other, one) };
                        drop(first);
                        // By another thread.
                        std::thread::scope(|scope| drop(scope.spawn(|| drop(second))));
                        turn(beacon, || std::thread::sleep(ms(600)));
                    }
                });
                let expected = records.iter().filter(|record| labels_of(record).contains(&"expected"));
                format!("{} freezes, {} expected", records.len(), expected.count())
            },
        ),
        scenario("12", "announced for 3 s, one around it of 500 ms taken back first", "0 freezes", || {
            let (records, _) = watched(
                |builder| builder,
                |monitor, beacon| {
                    turn(beacon, || {
                        let around = monitor.expect(ms(500), "around");
                        let _expected = monitor.expect(ms(3000), "opens the database");
                        drop(around);
                        std::thread::sleep(ms(1200));
                    });
                },
            );
            format!("{} freezes", records.len())
        }),
        scenario(
            "12",
            "600 ms as announced and 60 ms more, then 300 ms more",
            "0 freezes, then 1 freezes of 300 ms",
            || {
                let blocked = |more: u64| {
                    let (records, _) = watched(
                        |builder| builder,
                        |monitor, beacon| {
                            turn(beacon, || {
                                let expected = monitor.expect(ms(5000), "opens the database");
                                std::thread::sleep(ms(600));
                                drop(expected);
                                std::thread::sleep(ms(more));
                            });
                        },
                    );
                    records
                };
                let (short, long) = (blocked(60).len(), blocked(300));
                let lasted = long.first().map_or(0, |record| record.duration_ns / 1_000_000);
                let near = if (299..400).contains(&lasted) { 300 } else { lasted };
                format!("{short} freezes, then {} freezes of {near} ms", long.len())
            },
        ),
        scenario("-", "24 loops frozen at one time for 800 ms", "24 records of 800 ms, 0 stopped", || {
            let path = file();
            let loops: Vec<_> = (0..24)
                .map(|number| {
                    let path = path.clone();
                    std::thread::spawn(move || {
                        let size = Size { slots: 32, ..Size::default() };
                        let builder = Monitor::builder(&format!("loop {number}")).report_file(&path, size);
                        let (_monitor, beacon) = builder.record_repeats(true).watch_run_loop().unwrap();
                        beacon.transition(Activity::Entry);
                        beacon.transition(Activity::BeforeWaiting);
                        std::thread::sleep(ms(150));
                        turn(&beacon, || std::thread::sleep(ms(800)));
                        std::thread::sleep(ms(150));
                    })
                })
                .collect();
            loops.into_iter().for_each(|thread| thread.join().unwrap());
            let records = records(&path);
            let right =
                records.iter().filter(|record| (795..850).contains(&(record.duration_ns / 1_000_000)));
            let stopped = records.iter().filter(|record| labels_of(record).contains(&"stopped"));
            format!("{} records of 800 ms, {} stopped", right.count(), stopped.count())
        })
        .not_emulated("an emulator is too slow for so many at once"),
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
        )
        .not_emulated("an emulator makes the loop too slow to be never idle for so short a time"),
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
