//! The classic monitor: an observer posts a semaphore at each activity, and the watcher waits for it with a timeout of 50 ms.
//! Five timeouts in a row, with a loop that handles sources or has woken up, are a freeze.

use super::designs::{Design, Work};
use crate::posted::{PosixSemaphore, Posted};
use freezeframe_monitor::Activity;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

/// How many timeouts in a row.
const MISSES: u32 = 5;

struct Shared {
    semaphore: PosixSemaphore,
    activity: AtomicU8,
    freezes: AtomicU64,
    stop: AtomicBool,
}

impl Shared {
    fn watch(&self) {
        let mut misses = 0;
        while !self.stop.load(Ordering::Relaxed) {
            if self.semaphore.wait() {
                misses = 0;
                continue;
            }
            let activity = Activity::from_code(self.activity.load(Ordering::Relaxed));
            if matches!(activity, Some(Activity::BeforeSources | Activity::AfterWaiting)) {
                misses += 1;
            }
            // Each freeze is told of once.
            if misses == MISSES {
                self.freezes.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

pub(super) struct Classic {
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
}

impl Design for Classic {
    const NAME: &'static str = "semaphore an activity";

    fn start(_: &Sender<Work>) -> Result<Self, Box<dyn Error>> {
        let shared = Arc::new(Shared {
            semaphore: PosixSemaphore::new(),
            activity: AtomicU8::new(0),
            freezes: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let watching = shared.clone();
        let watcher = std::thread::Builder::new().name("classic".into()).spawn(move || watching.watch())?;
        Ok(Self { shared, watcher: Some(watcher) })
    }

    fn tell(&self, activity: Activity) {
        self.shared.activity.store(activity as u8, Ordering::Relaxed);
        self.shared.semaphore.post();
    }

    fn freezes(&self) -> u64 {
        self.shared.freezes.load(Ordering::Relaxed)
    }
}

impl Drop for Classic {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.semaphore.post();
        // The semaphore outlives its watcher.
        self.watcher.take().map(JoinHandle::join);
    }
}
