//! A monitor by pings: at each tick of 50 ms the watcher posts work to the loop, unless the last one is still unanswered. Five
//! such ticks in a row are a freeze.

use super::designs::{Design, Work};
use freezeframe_monitor::Activity;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(50);
/// How many ticks in a row.
const MISSES: u32 = 5;

#[derive(Default)]
struct Shared {
    answered: AtomicBool,
    freezes: AtomicU64,
    stop: AtomicBool,
}

fn watch(shared: &Arc<Shared>, queue: &Sender<Work>) {
    let mut misses = 0;
    while !shared.stop.load(Ordering::Relaxed) {
        if shared.answered.swap(false, Ordering::AcqRel) {
            misses = 0;
            let asked = shared.clone();
            let _ = queue.send(Box::new(move || asked.answered.store(true, Ordering::Release)));
        } else {
            misses += 1;
            // Each freeze is told of once.
            if misses == MISSES {
                shared.freezes.fetch_add(1, Ordering::Relaxed);
            }
        }
        std::thread::sleep(TICK);
    }
}

pub(super) struct PingEachTick {
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
}

impl Design for PingEachTick {
    const NAME: &'static str = "ping a tick";

    fn start(queue: &Sender<Work>) -> Result<Self, Box<dyn Error>> {
        let shared = Arc::new(Shared { answered: AtomicBool::new(true), ..Shared::default() });
        let (watching, queue) = (shared.clone(), queue.clone());
        let watcher =
            std::thread::Builder::new().name("pings".into()).spawn(move || watch(&watching, &queue))?;
        Ok(Self { shared, watcher: Some(watcher) })
    }

    fn tell(&self, _: Activity) {}

    fn freezes(&self) -> u64 {
        self.shared.freezes.load(Ordering::Relaxed)
    }
}

impl Drop for PingEachTick {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.watcher.take().map(JoinHandle::join);
    }
}
