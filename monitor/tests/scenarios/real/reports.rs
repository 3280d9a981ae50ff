//! What a report says: samples, repeats, causes, severity.

use super::*;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario(
            "-",
            "poll() for 680 ms in a frame that has a frame pointer",
            "1 record, 0 interrupted",
            || {
                let interrupted = AtomicU32::new(0);
                let (records, _) = watched(
                    |builder| builder,
                    |_, beacon| {
                        turn(beacon, || interrupted.store(u32::from(!polls_for(680)), Ordering::SeqCst));
                    },
                );
                format!("{} record, {} interrupted", records.len(), interrupted.load(Ordering::SeqCst))
            },
        )
        .not_emulated("an emulator forbids tracing, and its signals end a poll"),
        scenario(
            "7",
            "freezes that end when they are noticed, and what comes next",
            "records, 0 stacks of what came next",
            || {
                let set = |builder: Builder| builder.record_repeats(true);
                let (records, _) = watched(set, |monitor, beacon| {
                    // A thread that takes no signals is not stopped at once.
                    let _deaf = Deaf::new();
                    for freezes in 0..12 {
                        beacon.transition(Activity::AfterWaiting);
                        let begun = Instant::now();
                        // Counted before its stack is taken.
                        while monitor.statistics().freezes == freezes && begun.elapsed() < ms(5000) {}
                        beacon.transition(Activity::BeforeTimers);
                        what_comes_next();
                        beacon.transition(Activity::BeforeWaiting);
                        std::thread::sleep(ms(60));
                    }
                });
                let is_next = |frames: &[ReadFrame]| {
                    let mut symbols = frames.iter().filter_map(|frame| frame.symbol.as_ref());
                    symbols.any(|symbol| symbol.name.contains("what_comes_next"))
                };
                let blames = |record: &Record| {
                    let sampled = record.samples.iter().flat_map(|samples| &samples.stacks);
                    let held = record.threads.first().filter(|thread| !thread.moved);
                    sampled
                        .map(|stack| &stack.frames)
                        .chain(held.map(|held| &held.frames))
                        .any(|frames| is_next(frames))
                };
                let wrong = records.iter().filter(|record| blames(record)).count();
                format!(
                    "{}, {wrong} stacks of what came next",
                    if records.is_empty() { "none" } else { "records" }
                )
            },
        ),
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
                causes.collect::<Vec<_>>().join(" ")
            },
        )
        .not_emulated(NO_CALLS),
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
