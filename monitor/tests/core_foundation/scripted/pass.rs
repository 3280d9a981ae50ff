//! A run, pass by pass. Nothing is locked during a callback.

use super::objects::{CFAbsoluteTimeGetCurrent, Object};
use super::run_loop::{Loop, State, current};
use objc2_core_foundation::{CFRunLoopActivity, CFRunLoopRunResult, CFTimeInterval};
use std::ptr::from_ref;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[unsafe(no_mangle)]
extern "C-unwind" fn CFRunLoopRunInMode(
    mode: &Object,
    seconds: CFTimeInterval,
    return_after_source: u8,
) -> CFRunLoopRunResult {
    let object = current();
    let run = Run { run_loop: object.run_loop(), mode: mode.name() };
    if run.is_empty() {
        return CFRunLoopRunResult::Finished;
    }
    let outer = run.run_loop.state().current.replace(run.mode.to_owned());
    run.notify(CFRunLoopActivity::Entry);
    let result = run.passes(seconds, return_after_source == 1);
    run.notify(CFRunLoopActivity::Exit);
    run.run_loop.state().current = outer;
    result
}

struct Run<'a> {
    run_loop: &'a Loop,
    mode: &'a str,
}

impl Run<'_> {
    fn passes(&self, seconds: CFTimeInterval, return_after_source: bool) -> CFRunLoopRunResult {
        let deadline = CFAbsoluteTimeGetCurrent() + seconds.min(1e9);
        // The queue's work is not done in two passes in a row without a wait between them.
        let mut drained = true;
        loop {
            self.notify(CFRunLoopActivity::BeforeTimers);
            self.notify(CFRunLoopActivity::BeforeSources);
            self.blocks();
            let performed = self.sources();
            if performed {
                self.blocks();
            }
            if drained || !self.drain() {
                drained = self.wait_and_handle(deadline, performed || seconds == 0.0);
            } else {
                drained = true;
            }
            self.blocks();
            if performed && return_after_source {
                return CFRunLoopRunResult::HandledSource;
            }
            if CFAbsoluteTimeGetCurrent() >= deadline {
                return CFRunLoopRunResult::TimedOut;
            }
            if std::mem::take(&mut self.run_loop.state().stopped) {
                return CFRunLoopRunResult::Stopped;
            }
            if self.is_empty() {
                return CFRunLoopRunResult::Finished;
            }
        }
    }

    /// Waits, or only asks, and handles what has come. Returns whether that was the queue's work.
    fn wait_and_handle(&self, deadline: f64, poll: bool) -> bool {
        if !poll {
            self.notify(CFRunLoopActivity::BeforeWaiting);
        }
        self.run_loop.waiting.store(true, Ordering::SeqCst);
        let mut state = self.run_loop.state();
        while !poll && !self.has_come(&state) && CFAbsoluteTimeGetCurrent() < deadline {
            let until = state.next_timer(self.mode).map_or(deadline, |at| at.min(deadline));
            let left = Duration::from_secs_f64((until - CFAbsoluteTimeGetCurrent()).max(0.0));
            state = self.run_loop.come.wait_timeout(state, left).unwrap().0;
        }
        state.woken = false;
        drop(state);
        self.run_loop.waiting.store(false, Ordering::SeqCst);
        if !poll {
            self.notify(CFRunLoopActivity::AfterWaiting);
        }
        !self.timers() && self.drain()
    }

    fn has_come(&self, state: &State) -> bool {
        let is_due = state.next_timer(self.mode).is_some_and(|at| at <= CFAbsoluteTimeGetCurrent());
        state.woken || is_due || (state.common.contains(self.mode) && !state.queue.is_empty())
    }

    fn is_empty(&self) -> bool {
        let state = self.run_loop.state();
        let has_items = state
            .modes
            .get(self.mode)
            .is_some_and(|mode| !mode.sources.is_empty() || state.next_timer(self.mode).is_some());
        let has_work = state.common.contains(self.mode) && !state.queue.is_empty();
        !has_items && !has_work
    }

    /// Calls the observers, in order. Those that are being called already are left out.
    fn notify(&self, activity: CFRunLoopActivity) {
        let observers = self.run_loop.state().modes.get(self.mode).map(|mode| mode.observers.clone());
        for held in observers.into_iter().flatten() {
            let observer = held.observer();
            if observer.activities & activity.0 == 0 || observer.firing.swap(true, Ordering::SeqCst) {
                continue;
            }
            let callout = observer.callout.expect("an observer has a callback");
            // SAFETY: the observer is held, and it holds what its callback takes.
            unsafe { callout(from_ref::<Object>(&held).cast_mut().cast(), activity, observer.info.pointer) };
            observer.firing.store(false, Ordering::SeqCst);
        }
    }

    fn blocks(&self) {
        let blocks = self.run_loop.state().take_blocks(self.mode);
        blocks.into_iter().for_each(|block| block());
    }

    /// Performs the sources that were signalled. Returns whether there were any.
    fn sources(&self) -> bool {
        let sources = self.run_loop.state().modes.get(self.mode).map(|mode| mode.sources.clone());
        let mut performed = false;
        for held in sources.into_iter().flatten() {
            let source = held.source();
            if source.signalled.swap(false, Ordering::SeqCst) {
                performed = true;
                // SAFETY: the source is held, and it holds what its callback takes.
                unsafe { source.perform.expect("a source has a callback")(source.info.pointer) };
            }
        }
        performed
    }

    /// Fires the timers that are due, each once however often it was missed. Returns whether there were any.
    fn timers(&self) -> bool {
        let timers = self.run_loop.state().modes.get(self.mode).map(|mode| mode.timers.clone());
        let mut fired = false;
        for held in timers.into_iter().flatten() {
            let (timer, now) = (held.timer(), CFAbsoluteTimeGetCurrent());
            let due = timer.next.lock().unwrap().take_if(|at| *at <= now);
            let Some(due) = due else { continue };
            fired = true;
            let callout = timer.callout.expect("a timer has a callback");
            // SAFETY: the timer is held, and it holds what its callback takes.
            unsafe { callout(from_ref::<Object>(&held).cast_mut().cast(), timer.info.pointer) };
            if timer.interval > 0.0 {
                let missed = (CFAbsoluteTimeGetCurrent() - due).div_euclid(timer.interval);
                *timer.next.lock().unwrap() = Some(due + (missed + 1.0) * timer.interval);
            }
        }
        fired
    }

    /// Does the work in the queue, which the common modes serve. Returns whether there was any.
    fn drain(&self) -> bool {
        let mut state = self.run_loop.state();
        if !state.common.contains(self.mode) || state.queue.is_empty() {
            return false;
        }
        let queue = std::mem::take(&mut state.queue);
        drop(state);
        queue.into_iter().for_each(|work| work());
        true
    }
}
