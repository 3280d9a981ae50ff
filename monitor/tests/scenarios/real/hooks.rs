//! What the program says, and what happens if it says it badly.

use super::*;

pub(super) fn scenarios() -> Vec<Scenario> {
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
        scenario(
            "-",
            "a filter that wants no micro freezes: 320 ms, then 700 ms",
            "1 filtered, 1 whole, Detected Recovered",
            || {
                let phases = Arc::new(Mutex::new(Vec::new()));
                let hears = phases.clone();
                let set = |builder: Builder| {
                    let builder = builder.filter(|freeze| freeze.severity > Severity::Micro);
                    builder.on_freeze(move |freeze| {
                        hears
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(format!("{:?}", freeze.phase));
                    })
                };
                let (records, monitor) = watched(set, |_, beacon| {
                    turn(beacon, || std::thread::sleep(ms(320)));
                    turn(beacon, long_part);
                });
                let filtered = monitor.statistics().filtered;
                let first =
                    |record: &Record| record.samples.as_ref()?.samples.first().map(|sample| sample.at_ns);
                // Also what it did before it was wanted.
                let whole = records.iter().filter(|record| {
                    record.duration_ns >= 690_000_000
                        && first(record).is_some_and(|at_ns| at_ns < 250_000_000)
                        && leads_with(record, "long_part")
                });
                let phases = phases.lock().unwrap_or_else(PoisonError::into_inner).join(" ");
                format!("{filtered} filtered, {} whole, {phases}", whole.count())
            },
        ),
        scenario(
            "6",
            "a filter that takes 150 ms, freezes of 600 ms",
            "2 of 600 ms, not stopped, 0 late",
            || {
                let set = |builder: Builder| {
                    builder.record_repeats(true).filter(|_| {
                        std::thread::sleep(ms(150));
                        true
                    })
                };
                let (records, monitor) = watched(set, |_, beacon| {
                    for _ in 0..2 {
                        turn(beacon, || std::thread::sleep(ms(600)));
                        std::thread::sleep(ms(200));
                    }
                });
                let right =
                    records.iter().filter(|record| (595..640).contains(&(record.duration_ns / 1_000_000)));
                let stopped = records.iter().any(|record| labels_of(record).contains(&"stopped"));
                let late = monitor.statistics().late_ticks;
                format!(
                    "{} of 600 ms,{} stopped, {late} late",
                    right.count(),
                    if stopped { "" } else { " not" }
                )
            },
        ),
        scenario(
            "14",
            "a callback that hangs: what it missed, and the loop watched anew",
            "3 freezes, 5 or more unheard, watched anew",
            || {
                let (release, released) = mpsc::channel::<()>();
                let (monitor, beacon) = Monitor::builder("hangs")
                    .on_freeze(move |_| {
                        let _ = released.recv();
                    })
                    .watch_run_loop()
                    .unwrap();
                beacon.transition(Activity::Entry);
                beacon.transition(Activity::BeforeWaiting);
                std::thread::sleep(ms(60));
                (0..3).for_each(|_| turn(&beacon, || std::thread::sleep(ms(320))));
                let statistics = monitor.statistics();
                drop(monitor);
                let anew = Monitor::builder("anew").watch_run_loop().is_ok();
                drop(release);
                // Of each of the others it should have heard the beginning and the end, of the first one the end.
                let unheard =
                    if statistics.unheard >= 5 { "5 or more".into() } else { statistics.unheard.to_string() };
                let anew = if anew { "watched anew" } else { "never again" };
                format!("{} freezes, {unheard} unheard, {anew}", statistics.freezes)
            },
        ),
        scenario(
            "-",
            "pings whose target panics: in post, in is_waiting",
            "0 freezes, 1 panicked, blind; 1, 1, watching",
            || {
                struct Panics(bool);
                impl PingTarget for Panics {
                    fn post(&mut self, ping: Ping) {
                        assert!(self.0, "in a hook");
                        // The loop never comes to it.
                        std::mem::forget(ping);
                    }
                    fn is_waiting(&self) -> bool {
                        assert!(!self.0, "in a hook");
                        false
                    }
                }
                std::panic::set_hook(Box::new(|_| {}));
                let seen = [false, true].map(|posts| {
                    let monitor = Monitor::builder("panics").watch_by_ping(Panics(posts), current()).unwrap();
                    std::thread::sleep(ms(600));
                    (monitor.statistics(), monitor.is_watching())
                });
                let _ = std::panic::take_hook();
                let is = |watching: bool| if watching { "watching" } else { "blind" };
                let [(post, post_watches), (waiting, waiting_watches)] = seen;
                format!(
                    "{} freezes, {} panicked, {}; {}, {}, {}",
                    post.freezes,
                    post.panicked,
                    is(post_watches),
                    waiting.freezes,
                    waiting.panicked,
                    is(waiting_watches)
                )
            },
        ),
        scenario("-", "a hook that panics, and one that hangs", "2 records, 1 panicked, 2 records", || {
            let two = |beacon: &Beacon| (0..2).for_each(|_| turn(beacon, || std::thread::sleep(ms(400))));
            std::panic::set_hook(Box::new(|_| {}));
            let (panics, monitor) =
                watched(|builder| builder.filter(|_| panic!("in a hook")), |_, beacon| two(beacon));
            let panicked = monitor.statistics().panicked;
            drop(monitor);
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
            format!("{} records, {panicked} panicked, {} records", panics.len(), hung.len())
        }),
    ]
}
