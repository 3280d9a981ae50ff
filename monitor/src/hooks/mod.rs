//! What a program wants to hear of freezes, and to say of them: on a thread of its own, so that a hook that hangs or panics
//! hurts neither the watcher nor the program.
//!
//! ```text
//! watcher ──question (filter, enrich)──▶ mailbox ──▶ hooks' thread ──▶ the program's closures
//!    ▲ waits for the answer, but not long    │ ◀──answer──┘
//!    └──events (start, update, end)─────────▶│  never waits; what finds no place is counted
//! ```

mod text;

pub use text::Values;
pub(crate) use text::{Crumbs, Text};

use crate::freeze::{Candidate, Freeze, Heard};
use crate::sync::atomic::Ordering;
use crate::watch::Control;
use freezeframe_unwind::threads::{ThreadId, current};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the watcher waits for an answer.
const ANSWER_WITHIN: Duration = Duration::from_millis(100);
/// How many events wait for their turn.
const EVENTS: usize = 32;

type Filter = Box<dyn FnMut(&Candidate) -> bool + Send>;
type Enrich = Box<dyn FnMut(&Candidate, &mut Values) + Send>;
type OnFreeze = Box<dyn FnMut(&Freeze<'_>) + Send>;

/// The program's closures.
#[derive(Default)]
pub(crate) struct Closures {
    pub(crate) filter: Option<Filter>,
    pub(crate) enrich: Option<Enrich>,
    pub(crate) on_freeze: Option<OnFreeze>,
}

impl Closures {
    const fn is_empty(&self) -> bool {
        self.filter.is_none() && self.enrich.is_none() && self.on_freeze.is_none()
    }
}

/// What the program says before a report is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) wanted: bool,
    pub(crate) values: Values,
}

/// What the two threads share. The lock is held for moves only, never while a closure runs.
#[derive(Debug, Default)]
struct Mailbox {
    question: Option<Candidate>,
    answer: Option<Answer>,
    /// A closure runs.
    busy: bool,
    events: VecDeque<Heard>,
    closed: bool,
}

#[derive(Debug, Default)]
struct Shared {
    mailbox: Mutex<Mailbox>,
    asked: Condvar,
    answered: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Mailbox> {
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The watcher's side.
#[derive(Debug)]
pub(crate) struct Hooks {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// As the system knows it: it is left out of captures.
    pub(crate) id: Option<ThreadId>,
    asks: bool,
    hears: bool,
    control: Arc<Control>,
}

impl Hooks {
    /// Starts the thread, if there is a closure.
    pub(crate) fn start(
        component: Arc<str>,
        closures: Closures,
        control: Arc<Control>,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        shared.lock().events.reserve_exact(EVENTS);
        let mut hooks =
            Self { shared: shared.clone(), thread: None, id: None, asks: false, hears: false, control };
        if closures.is_empty() {
            return Ok(hooks);
        }
        hooks.asks = closures.filter.is_some() || closures.enrich.is_some();
        hooks.hears = closures.on_freeze.is_some();
        let control = hooks.control.clone();
        let (send, known) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("freezeframe-hks".into()).spawn(move || {
            let _ = send.send(current());
            serve(&shared, &component, closures, &control);
        })?;
        // Where locks are made when they are first used, this one is now: not in the middle of a freeze.
        drop(hooks.shared.answered.wait_timeout(hooks.shared.lock(), Duration::ZERO));
        hooks.id = known.recv().ok();
        hooks.thread = Some(thread);
        Ok(hooks)
    }

    /// The id of the thread, for who stops the monitor from a closure.
    pub(crate) fn thread(&self) -> Option<std::thread::ThreadId> {
        self.thread.as_ref().map(|thread| thread.thread().id())
    }

    /// Asks the program whether it wants this reported, and what it has to say. None if it does not answer in time, or a
    /// closure hangs.
    pub(crate) fn ask(&self, candidate: Candidate) -> Option<Answer> {
        if !self.asks {
            return Some(Answer { wanted: true, values: Values::default() });
        }
        let mut mailbox = self.shared.lock();
        if mailbox.busy || mailbox.question.is_some() {
            return None;
        }
        (mailbox.question, mailbox.answer) = (Some(candidate), None);
        self.shared.asked.notify_one();
        let give_up = Instant::now() + ANSWER_WITHIN;
        loop {
            if let Some(answer) = mailbox.answer.take() {
                return Some(answer);
            }
            let left = give_up.saturating_duration_since(Instant::now());
            if left.is_zero() {
                mailbox.question = None;
                return None;
            }
            let waited = self.shared.answered.wait_timeout(mailbox, left);
            mailbox = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Tells the program of something, in its own time. Until it hears of that, it is counted as unheard; for good, if there is
    /// no place for it.
    pub(crate) fn tell(&self, event: Heard) {
        if !self.hears {
            return;
        }
        self.control.unheard.fetch_add(1, Ordering::Relaxed);
        let mut mailbox = self.shared.lock();
        if mailbox.events.len() < EVENTS {
            mailbox.events.push_back(event);
            self.shared.asked.notify_one();
        }
    }

    /// Waits until everything was told, however long the closures take.
    pub(crate) fn finish(mut self) {
        let thread = self.thread.take();
        drop(self);
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Hooks {
    /// The thread ends when it has told everything; nobody waits for that here.
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.asked.notify_one();
    }
}

/// The hooks' thread, until the mailbox is closed and empty.
fn serve(shared: &Shared, component: &str, mut closures: Closures, control: &Control) {
    loop {
        let mut mailbox = shared.lock();
        let (question, event) = loop {
            if let Some(question) = mailbox.question.take() {
                break (Some(question), None);
            }
            if let Some(event) = mailbox.events.pop_front() {
                break (None, Some(event));
            }
            if mailbox.closed {
                return;
            }
            mailbox = shared.asked.wait(mailbox).unwrap_or_else(PoisonError::into_inner);
        };
        mailbox.busy = true;
        drop(mailbox);
        let answer = question.map(|candidate| answer(&mut closures, &candidate, control));
        if let (Some(event), Some(on_freeze)) = (event, &mut closures.on_freeze) {
            control.unheard.fetch_sub(1, Ordering::Relaxed);
            if control.call(|| on_freeze(&event.as_freeze(component))).is_none() {
                closures.on_freeze = None;
            }
        }
        let mut mailbox = shared.lock();
        mailbox.busy = false;
        if answer.is_some() {
            mailbox.answer = answer;
            shared.answered.notify_one();
        }
    }
}

/// A closure that panics is not asked again; nothing is filtered out for that.
fn answer(closures: &mut Closures, candidate: &Candidate, control: &Control) -> Answer {
    let mut answer = Answer { wanted: true, values: Values::default() };
    if let Some(filter) = &mut closures.filter {
        match control.call(|| filter(candidate)) {
            Some(wanted) => answer.wanted = wanted,
            None => closures.filter = None,
        }
    }
    if let Some(enrich) = closures.enrich.as_mut().filter(|_| answer.wanted) {
        let mut values = Values::default();
        match control.call(|| enrich(candidate, &mut values)) {
            Some(()) => answer.values = values,
            None => closures.enrich = None,
        }
    }
    answer
}
