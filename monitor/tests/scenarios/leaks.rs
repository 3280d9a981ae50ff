//! Objects that go late, and those that do not go. They are looked for during a minute: the watch begins before the first
//! scenario, and the others run meanwhile.

use super::Scenario;
use freezeframe_monitor::leaks::LeakWatch;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());
static BEGUN: OnceLock<Instant> = OnceLock::new();

const LAST_LOOK: Duration = Duration::from_secs(60);

pub(crate) fn begin() {
    BEGUN.get_or_init(Instant::now);
    std::thread::spawn(|| {
        let watch = LeakWatch::start(|leak| {
            let heard = format!("{} {:?} {} s", leak.label, leak.verdict, leak.age.as_secs());
            HEARD.lock().unwrap_or_else(PoisonError::into_inner).push(heard);
        });
        let watch = watch.unwrap();
        let [stays, its_child, late, in_time] = [(); 4].map(Arc::new);
        let screen = watch.expect_drop(Arc::downgrade(&stays), "screen");
        watch.expect_drop_with(&screen, Arc::downgrade(&its_child), "list");
        watch.expect_drop(Arc::downgrade(&late), "picture");
        watch.expect_drop(Arc::downgrade(&in_time), "sound");
        drop(in_time);
        std::thread::sleep(Duration::from_secs(4));
        drop(late);
        std::thread::sleep(LAST_LOOK);
        drop((stays, its_child));
    });
}

pub(crate) fn scenario() -> Scenario {
    super::scenario(
        "18",
        "one stays with its child, one goes after 4 s, one at once",
        "picture FreedLate 2 s, screen Leaked 60 s",
        || {
            let heard = || HEARD.lock().unwrap_or_else(PoisonError::into_inner).join(", ");
            let patience = LAST_LOOK + Duration::from_secs(20);
            while BEGUN.get().is_some_and(|begun| begun.elapsed() < patience) && !heard().contains("screen") {
                std::thread::sleep(Duration::from_millis(50));
            }
            heard()
        },
    )
}
