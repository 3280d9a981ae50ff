//! A small run loop: sources posted from any thread, timers, a real wait, and an observer that is told what it is about
//! to do. The order is CFRunLoop's.

use freezeframe_monitor::{Activity, Ping, PingTarget};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

type Source = Box<dyn FnOnce() + Send>;
type Timer = Box<dyn FnOnce(&RunLoop)>;
type Observer = Box<dyn Fn(Activity)>;

/// What other threads see of the loop.
#[derive(Debug, Default)]
struct Shared {
    posted: Mutex<Vec<Posted>>,
    wake: Condvar,
    waiting: AtomicBool,
}

struct Posted(Source);

impl std::fmt::Debug for Posted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Posted")
    }
}

/// The loop. It runs on the thread that made it.
pub(crate) struct RunLoop {
    shared: Arc<Shared>,
    /// By due time; the number keeps timers of the same time apart, in their order.
    timers: RefCell<BTreeMap<(Instant, u64), Timer>>,
    next_timer: Cell<u64>,
    observer: Option<Observer>,
    stopped: Cell<bool>,
}

impl RunLoop {
    pub(crate) fn new() -> Self {
        Self {
            shared: Arc::default(),
            timers: RefCell::default(),
            next_timer: Cell::new(0),
            observer: None,
            stopped: Cell::new(false),
        }
    }

    /// Tells `observer` each activity, before it begins.
    pub(crate) fn observe(&mut self, observer: impl Fn(Activity) + 'static) {
        self.observer = Some(Box::new(observer));
    }

    /// The way in from other threads.
    pub(crate) fn handle(&self) -> Handle {
        Handle(self.shared.clone())
    }

    /// Calls `timer` once, after `delay`.
    pub(crate) fn after(&self, delay: Duration, timer: impl FnOnce(&Self) + 'static) {
        let number = self.next_timer.replace(self.next_timer.get() + 1);
        self.timers.borrow_mut().insert((Instant::now() + delay, number), Box::new(timer));
    }

    /// Ends the run after the callback that calls this.
    pub(crate) fn stop(&self) {
        self.stopped.set(true);
    }

    /// Runs until it is stopped.
    pub(crate) fn run(&self) {
        self.tell(Activity::Entry);
        while !self.stopped.get() {
            self.tell(Activity::BeforeTimers);
            self.tell(Activity::BeforeSources);
            self.handle_sources();
            if self.stopped.get() {
                break;
            }
            self.tell(Activity::BeforeWaiting);
            self.wait();
            self.tell(Activity::AfterWaiting);
            self.fire_timers();
        }
        self.tell(Activity::Exit);
    }

    fn tell(&self, activity: Activity) {
        if let Some(observer) = &self.observer {
            observer(activity);
        }
    }

    #[inline(never)]
    fn handle_sources(&self) {
        let posted = std::mem::take(&mut *self.shared.posted.lock().unwrap_or_else(PoisonError::into_inner));
        posted.into_iter().for_each(|Posted(source)| source());
    }

    #[inline(never)]
    fn fire_timers(&self) {
        let now = Instant::now();
        while !self.stopped.get() {
            let due = self
                .timers
                .borrow_mut()
                .first_entry()
                .filter(|entry| entry.key().0 <= now)
                .map(|e| e.remove());
            let Some(timer) = due else { break };
            timer(self);
        }
    }

    /// Waits until something is posted or a timer is due.
    #[inline(never)]
    fn wait(&self) {
        let next_timer = self.timers.borrow().keys().next().map(|(due, _)| *due);
        let Shared { posted, wake, waiting } = &*self.shared;
        let mut posted = posted.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.store(true, Ordering::SeqCst);
        while posted.is_empty() {
            posted = match next_timer.map(|due| due.saturating_duration_since(Instant::now())) {
                None => wake.wait(posted).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => break,
                Some(rest) => wake.wait_timeout(posted, rest).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
        waiting.store(false, Ordering::SeqCst);
    }
}

/// Posts work to a [`RunLoop`] from any thread.
#[derive(Clone, Debug)]
pub(crate) struct Handle(Arc<Shared>);

impl Handle {
    pub(crate) fn post(&self, source: impl FnOnce() + Send + 'static) {
        self.0.posted.lock().unwrap_or_else(PoisonError::into_inner).push(Posted(Box::new(source)));
        self.0.wake.notify_one();
    }
}

impl PingTarget for Handle {
    fn post(&mut self, ping: Ping) {
        Self::post(self, || ping.answer());
    }

    fn is_waiting(&self) -> bool {
        self.0.waiting.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn timers_fire_in_order_and_the_observer_hears_the_activities_of_a_turn() {
        let mut run_loop = RunLoop::new();
        let heard = Rc::new(RefCell::new(Vec::new()));
        let (first, second, observer) = (heard.clone(), heard.clone(), heard.clone());
        run_loop.observe(move |activity| observer.borrow_mut().push(format!("{activity:?}")));
        run_loop.after(Duration::from_secs(3600), |_| unreachable!("it is stopped long before"));
        run_loop.after(Duration::ZERO, move |run_loop| {
            first.borrow_mut().push("first".into());
            // Due later than all that this turn fires.
            run_loop.after(Duration::from_millis(1), move |run_loop| {
                second.borrow_mut().push("second".into());
                run_loop.stop();
            });
        });
        run_loop.run();
        let heard = heard.borrow().join(" ");
        let turn = "BeforeTimers BeforeSources BeforeWaiting AfterWaiting";
        assert!(heard.starts_with(&format!("Entry {turn} first {turn}")), "{heard}");
        assert!(heard.ends_with(&format!("{turn} second Exit")), "{heard}");
    }

    #[test]
    fn work_posted_from_another_thread_ends_the_wait() {
        let run_loop = RunLoop::new();
        let (handle, done) = (run_loop.handle(), Arc::new(AtomicBool::new(false)));
        let seen = done.clone();
        let thread = std::thread::spawn(move || {
            while !PingTarget::is_waiting(&handle) {
                std::thread::yield_now();
            }
            handle.post(move || done.store(true, Ordering::SeqCst));
        });
        fn until(run_loop: &RunLoop, seen: Arc<AtomicBool>) {
            if seen.load(Ordering::SeqCst) {
                return run_loop.stop();
            }
            run_loop.after(Duration::from_millis(1), move |run_loop| until(run_loop, seen));
        }
        until(&run_loop, seen);
        run_loop.run();
        thread.join().unwrap();
    }
}
