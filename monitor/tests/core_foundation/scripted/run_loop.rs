//! Loops, their modes and what is in those.

use super::objects::{Held, Kind, Object};
use objc2_core_foundation::{CFAbsoluteTime, CFRunLoop};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

pub(super) type Work = Box<dyn FnOnce() + Send>;

pub(super) const DEFAULT: &str = "kCFRunLoopDefaultMode";
const COMMON: &str = "kCFRunLoopCommonModes";

pub(super) struct Loop {
    state: Mutex<State>,
    /// Something has come for a loop that waits.
    pub(super) come: Condvar,
    pub(super) waiting: AtomicBool,
}

pub(super) struct State {
    pub(super) modes: BTreeMap<String, Mode>,
    pub(super) common: BTreeSet<String>,
    common_items: Vec<Held>,
    /// The innermost run's mode.
    pub(super) current: Option<String>,
    /// Blocks of `CFRunLoopPerformBlock`, each with its mode.
    pub(super) blocks: VecDeque<(String, Work)>,
    /// What the main queue is to the main loop.
    pub(super) queue: VecDeque<Work>,
    pub(super) woken: bool,
    pub(super) stopped: bool,
}

/// Observers in the order of being called; sources by order too.
#[derive(Default)]
pub(super) struct Mode {
    pub(super) observers: Vec<Held>,
    pub(super) sources: Vec<Held>,
    pub(super) timers: Vec<Held>,
}

impl Mode {
    fn list(&mut self, item: &Object) -> &mut Vec<Held> {
        match item.kind {
            Kind::Observer(_) => &mut self.observers,
            Kind::Source(_) => &mut self.sources,
            Kind::Timer(_) => &mut self.timers,
            Kind::Name(_) | Kind::Loop(_) => panic!("nothing for a mode"),
        }
    }

    /// In order, and behind those of the same order.
    fn add(&mut self, item: &Object) {
        let order = |item: &Object| match &item.kind {
            Kind::Observer(observer) => observer.order,
            Kind::Source(source) => source.order,
            _ => 0,
        };
        let list = self.list(item);
        if !list.iter().any(|held| held.is(item)) {
            let at = list.partition_point(|held| order(held) <= order(item));
            list.insert(at, Held::of(item));
        }
    }
}

/// Takes an item out of a list; to be dropped by the caller when nothing is locked.
fn take(list: &mut Vec<Held>, item: &Object) -> Option<Held> {
    let at = list.iter().position(|held| held.is(item))?;
    Some(list.remove(at))
}

impl Loop {
    fn new() -> Self {
        let state = State {
            modes: BTreeMap::new(),
            common: BTreeSet::from([DEFAULT.to_owned()]),
            common_items: Vec::new(),
            current: None,
            blocks: VecDeque::new(),
            queue: VecDeque::new(),
            woken: false,
            stopped: false,
        };
        Self { state: Mutex::new(state), come: Condvar::new(), waiting: AtomicBool::new(false) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, item: &Object, mode: &str) {
        let state = &mut *self.state();
        if mode == COMMON {
            state.common_items.push(Held::of(item));
            for name in &state.common {
                state.modes.entry(name.clone()).or_default().add(item);
            }
        } else {
            state.modes.entry(mode.to_owned()).or_default().add(item);
        }
    }

    fn remove(&self, item: &Object, mode: &str) {
        let mut removed = Vec::new();
        let mut guard = self.state();
        let state = &mut *guard;
        let names = if mode == COMMON {
            removed.push(take(&mut state.common_items, item));
            state.common.iter().cloned().collect()
        } else {
            vec![mode.to_owned()]
        };
        for name in names {
            removed.extend(state.modes.get_mut(&name).map(|mode| take(mode.list(item), item)));
        }
        drop(guard);
        drop(removed);
    }

    fn add_common_mode(&self, mode: &str) {
        let state = &mut *self.state();
        state.common.insert(mode.to_owned());
        let mode = state.modes.entry(mode.to_owned()).or_default();
        state.common_items.iter().for_each(|item| mode.add(item));
    }

    fn contains(&self, item: &Object, mode: &str) -> bool {
        let mut state = self.state();
        state.modes.get_mut(mode).is_some_and(|mode| mode.list(item).iter().any(|held| held.is(item)))
    }
}

thread_local!(static CURRENT: Held = Held::new(Kind::Loop(Loop::new())));

/// The calling thread's loop.
pub(super) fn current() -> Held {
    CURRENT.with(Held::clone)
}

/// The binding's type, for what CoreFoundation offers through blocks and queues only.
fn this(run_loop: &CFRunLoop) -> &Loop {
    // SAFETY: every loop was made here.
    unsafe { &*std::ptr::from_ref(run_loop).cast::<Object>() }.run_loop()
}

/// `CFRunLoopPerformBlock`: in the common modes, without a wake-up.
pub(crate) fn perform(run_loop: &CFRunLoop, block: impl FnOnce() + Send + 'static) {
    this(run_loop).state().blocks.push_back((COMMON.to_owned(), Box::new(block)));
}

/// `dispatch_async` to the queue that this loop drains.
pub(crate) fn post_to_queue(run_loop: &CFRunLoop, block: impl FnOnce() + Send + 'static) {
    this(run_loop).state().queue.push_back(Box::new(block));
    this(run_loop).come.notify_all();
}

/// How many observers and sources there are in all modes together, and among the common items.
pub(crate) fn items(run_loop: &CFRunLoop) -> usize {
    let state = this(run_loop).state();
    let in_modes = state.modes.values().map(|mode| mode.observers.len() + mode.sources.len()).sum::<usize>();
    in_modes + state.common_items.len()
}

impl State {
    /// The blocks that a run in this mode performs.
    pub(super) fn take_blocks(&mut self, mode: &str) -> Vec<Work> {
        let is_common = self.common.contains(mode);
        let (now, later) = std::mem::take(&mut self.blocks)
            .into_iter()
            .partition::<VecDeque<_>, _>(|(wanted, _)| wanted == mode || (wanted == COMMON && is_common));
        self.blocks = later;
        now.into_iter().map(|(_, work)| work).collect()
    }

    /// When the first of a mode's timers is due.
    pub(super) fn next_timer(&self, mode: &str) -> Option<CFAbsoluteTime> {
        let timers = self.modes.get(mode)?.timers.iter();
        timers.filter_map(|timer| *timer.timer().next.lock().unwrap()).min_by(f64::total_cmp)
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn CFRunLoopGetCurrent() -> *const Object {
    // Not retained for the caller, as the rule for `Get` has it: the thread keeps it.
    CURRENT.with(|kept| std::ptr::from_ref::<Object>(kept))
}

/// The loop of the main thread, which runs the test harness here: it never turns.
#[unsafe(no_mangle)]
extern "C-unwind" fn CFRunLoopGetMain() -> *const Object {
    static MAIN: OnceLock<Held> = OnceLock::new();
    std::ptr::from_ref::<Object>(MAIN.get_or_init(|| Held::new(Kind::Loop(Loop::new()))))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn CFRunLoopCopyCurrentMode(run_loop: &Object) -> *const Object {
    let mode = run_loop.run_loop().state().current.clone();
    mode.map_or(std::ptr::null(), |mode| Held::new(Kind::Name(mode.into())).into_raw())
}

#[unsafe(no_mangle)]
extern "C-unwind" fn CFRunLoopIsWaiting(run_loop: &Object) -> u8 {
    run_loop.run_loop().waiting.load(Ordering::SeqCst).into()
}

#[unsafe(no_mangle)]
extern "C-unwind" fn CFRunLoopWakeUp(run_loop: &Object) {
    let run_loop = run_loop.run_loop();
    run_loop.state().woken = true;
    run_loop.come.notify_all();
}

#[unsafe(no_mangle)]
extern "C-unwind" fn CFRunLoopStop(run_loop: &Object) {
    run_loop.run_loop().state().stopped = true;
    CFRunLoopWakeUp(run_loop);
}

#[unsafe(no_mangle)]
extern "C-unwind" fn CFRunLoopAddCommonMode(run_loop: &Object, mode: &Object) {
    run_loop.run_loop().add_common_mode(mode.name());
}

#[unsafe(no_mangle)]
extern "C-unwind" fn CFRunLoopContainsObserver(run_loop: &Object, item: &Object, mode: &Object) -> u8 {
    run_loop.run_loop().contains(item, mode.name()).into()
}

#[unsafe(no_mangle)]
extern "C-unwind" fn CFRunLoopAddObserver(run_loop: &Object, item: &Object, mode: &Object) {
    run_loop.run_loop().add(item, mode.name());
}

#[unsafe(no_mangle)]
extern "C-unwind" fn CFRunLoopRemoveObserver(run_loop: &Object, item: &Object, mode: &Object) {
    run_loop.run_loop().remove(item, mode.name());
}

#[unsafe(no_mangle)]
extern "C-unwind" fn CFRunLoopAddSource(run_loop: &Object, item: &Object, mode: &Object) {
    run_loop.run_loop().add(item, mode.name());
}

#[unsafe(no_mangle)]
extern "C-unwind" fn CFRunLoopRemoveSource(run_loop: &Object, item: &Object, mode: &Object) {
    run_loop.run_loop().remove(item, mode.name());
}

#[unsafe(no_mangle)]
extern "C-unwind" fn CFRunLoopAddTimer(run_loop: &Object, item: &Object, mode: &Object) {
    run_loop.run_loop().add(item, mode.name());
    // A loop that waits looks anew for how long.
    run_loop.run_loop().come.notify_all();
}

#[unsafe(no_mangle)]
extern "C-unwind" fn CFRunLoopRemoveTimer(run_loop: &Object, item: &Object, mode: &Object) {
    run_loop.run_loop().remove(item, mode.name());
}
