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
