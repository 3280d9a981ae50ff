//! Objects that should be gone soon, and are not.
//!
//! Whether something leaks cannot be known at once: a queue or an animation may hold on to it for a while. So an object is
//! looked for three times, and only one that is still there at the last look is called leaked. One that was there at a look
//! and gone at the next was freed late, which is worth a notice. What belongs to an object of which something was said is
//! not mentioned again.
//!
//! ```
//! use freezeframe_monitor::leaks::LeakWatch;
//! use std::sync::Arc;
//!
//! let leaks = LeakWatch::start(|leak| eprintln!("{:?}: {} after {:?}", leak.verdict, leak.label, leak.age))?;
//! let screen = Arc::new("a screen");
//! leaks.expect_drop(Arc::downgrade(&screen), "settings screen");
//! drop(screen);
//! # Ok::<(), std::io::Error>(())
//! ```

mod book;
#[cfg(target_vendor = "apple")]
mod objc;
mod weak;

pub use book::{Expected, Leak, LeakVerdict};
#[cfg(target_vendor = "apple")]
pub use objc::WeakObject;
pub use weak::WeakReference;

use crate::clock::now;
use book::Book;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

/// Looks for objects that should be gone. It has a thread, which sleeps while nothing is expected. Dropping it ends that.
///
/// # Threads
/// The callback runs on the watch's own thread. If it panics, that one call is lost. Dropping this ends the thread at once; if the
/// callback is running, it is waited for, but not longer than 100 ms.
#[derive(Debug)]
pub struct LeakWatch {
    shared: Arc<Shared>,
    thread: ThreadId,
    /// Closed when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    book: Book,
    stop: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeakWatch {
    /// Starts to look. `callback` hears of what leaked, and of what was freed late.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(callback: impl FnMut(&Leak) + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("freezeframe-leaks".into());
        let (alive, ended) = sync_channel(0);
        let thread = thread.spawn(move || {
            watch(&theirs, callback);
            drop(alive);
        })?;
        Ok(Self { shared, thread: thread.thread().id(), ended: Mutex::new(ended) })
    }

    /// Expects an object to be dropped within two seconds. What is returned names it as the parent of others.
    pub fn expect_drop(&self, weak: impl WeakReference, label: impl Into<String>) -> Expected {
        self.expect(weak, label.into(), None)
    }

    /// Expects an object to be dropped that belongs to another one, and so is not worth a word if that one leaks.
    pub fn expect_drop_with(
        &self,
        parent: &Expected,
        weak: impl WeakReference,
        label: impl Into<String>,
    ) -> Expected {
        self.expect(weak, label.into(), Some(parent))
    }

    fn expect(&self, weak: impl WeakReference, label: String, parent: Option<&Expected>) -> Expected {
        let expected = self.shared.lock().book.expect(Box::new(weak), label, parent, now());
        self.shared.changed.notify_one();
        expected
    }

    /// How many objects are still looked for.
    pub fn pending(&self) -> usize {
        self.shared.lock().book.pending()
    }
}

impl Drop for LeakWatch {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_one();
        // The callback may be what drops it.
        if self.thread != std::thread::current().id() {
            let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = ended.recv_timeout(Duration::from_millis(100));
        }
    }
}

fn watch(shared: &Shared, mut callback: impl FnMut(&Leak)) {
    let mut state = shared.lock();
    while !state.stop {
        let due = state.book.take_due(now());
        if !due.is_empty() {
            // Objects may be dropped by the look itself, and what that runs may expect others.
            drop(state);
            let looked = due.look();
            state = shared.lock();
            let leaks = state.book.judge(looked);
            drop(state);
            for leak in &leaks {
                let call = std::panic::AssertUnwindSafe(|| callback(leak));
                let _ = std::panic::catch_unwind(call);
            }
            state = shared.lock();
            continue;
        }
        state = match state.book.next_look() {
            None => shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(at) => {
                let time = Duration::from_nanos(at.saturating_sub(now()));
                let waited = shared.changed.wait_timeout(state, time);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_watch_ends_at_once_though_an_object_is_looked_for_and_from_within_its_own_callback() {
        let leaks = LeakWatch::start(|_| {}).unwrap();
        let object = Arc::new(1);
        leaks.expect_drop(Arc::downgrade(&object), "one");
        assert_eq!(leaks.pending(), 1);
        let begun = std::time::Instant::now();
        drop(leaks);
        assert!(begun.elapsed() < Duration::from_secs(1), "before the first look");
    }

    #[test]
    fn a_callback_that_hangs_does_not_keep_whoever_drops_the_watch() {
        let (release, released) = mpsc::channel::<()>();
        let (called, is_called) = mpsc::channel();
        let leaks = LeakWatch::start(move |_| {
            called.send(()).unwrap();
            let _ = released.recv();
        });
        let leaks = leaks.unwrap();
        let object = Arc::new(1);
        let long_ago = now().saturating_sub(61_000_000_000);
        leaks.shared.lock().book.expect(Box::new(Arc::downgrade(&object)), "one".into(), None, long_ago);
        leaks.shared.changed.notify_one();
        is_called.recv_timeout(Duration::from_secs(60)).unwrap();
        let begun = std::time::Instant::now();
        drop(leaks);
        let took = begun.elapsed();
        assert!((Duration::from_millis(100)..Duration::from_secs(10)).contains(&took), "{took:?}");
        drop(release);
    }

    #[test]
    fn what_is_freed_late_is_told_by_the_watchs_own_thread() {
        let (send, receive) = mpsc::channel();
        let leaks = LeakWatch::start(move |leak| {
            send.send((leak.clone(), std::thread::current().name().map(str::to_owned))).unwrap();
            panic!("the watch goes on");
        });
        let leaks = leaks.unwrap();
        let (object, other) = (Arc::new(1), Arc::new(2));
        // As if they had been expected some time ago: their second look is due, their first has seen them.
        {
            let mut state = leaks.shared.lock();
            for (weak, label) in [(Arc::downgrade(&object), "one"), (Arc::downgrade(&other), "two")] {
                let long_ago = now().saturating_sub(9_500_000_000);
                state.book.expect(Box::new(weak), label.into(), None, long_ago);
            }
        }
        leaks.shared.changed.notify_one();
        while leaks.shared.lock().book.looks() < 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop((object, other));
        for label in ["one", "two"] {
            let (leak, thread) = receive.recv_timeout(Duration::from_secs(60)).unwrap();
            assert_eq!((leak.label.as_str(), leak.verdict), (label, LeakVerdict::FreedLate));
            assert_eq!(thread.as_deref(), Some("freezeframe-leaks"));
        }
    }
}
