//! What the tests share: a loop with things in it, a monitor that watches it, and a log of what was seen.

use freezeframe_monitor::{Monitor, RunLoop, Statistics};
use freezeframe_report::file::Size;
use freezeframe_report::read::{Record, Report};
use freezeframe_report::show::Symbols;
use objc2_core_foundation::{
    CFAbsoluteTimeGetCurrent, CFIndex, CFRetained, CFRunLoop, CFRunLoopActivity, CFRunLoopObserver,
    CFRunLoopObserverContext, CFRunLoopRunResult, CFRunLoopSource, CFRunLoopSourceContext, CFRunLoopTimer,
    CFRunLoopTimerContext, CFString, kCFRunLoopCommonModes, kCFRunLoopDefaultMode,
};
use std::cell::{OnceCell, RefCell};
use std::ffi::c_void;
use std::ops::Deref;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use objc2_core_foundation::CFRunLoopActivity as Activity;

/// One timeout of the tests' monitors. Five make a freeze.
pub(crate) const INTERVAL: Duration = Duration::from_millis(20);
/// An observer behind all but ours.
pub(crate) const LAST: CFIndex = i32::MAX as CFIndex;

/// One test at a time: they measure what the others would disturb.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the log says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An observer in the common modes, at [`LAST`], has seen an activity.
    Saw(Activity),
    /// A long callback begins.
    Begins,
    /// And ends.
    Ends,
}

/// A test's stage. What is in the loop keeps the inner part for good.
pub(crate) struct Test {
    stage: Rc<Stage>,
    _turn: MutexGuard<'static, ()>,
}

impl Deref for Test {
    type Target = Rc<Stage>;

    fn deref(&self) -> &Rc<Stage> {
        &self.stage
    }
}

impl Drop for Test {
    fn drop(&mut self) {
        drop(self.monitor.take());
        let _ = std::fs::remove_file(&self.file);
    }
}

/// The calling thread's loop, watched by a monitor.
pub(crate) struct Stage {
    pub(crate) run_loop: CFRetained<CFRunLoop>,
    monitor: RefCell<Option<Monitor>>,
    log: RefCell<Vec<Step>>,
    file: PathBuf,
}

impl Stage {
    /// With a log, and without a monitor yet.
    pub(crate) fn unwatched() -> Test {
        let turn = turn();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let stage = Rc::new(Self {
            run_loop: CFRunLoop::current().unwrap(),
            monitor: RefCell::default(),
            log: RefCell::default(),
            file: std::env::temp_dir().join(format!("freezeframe-loop-{}-{number}.ffr", std::process::id())),
        });
        let log = stage.clone();
        let observer = observer(LAST, Activity::AllActivities, move |activity| {
            log.log.borrow_mut().push(Step::Saw(activity));
        });
        // SAFETY: a constant.
        stage.run_loop.add_observer(Some(&observer), unsafe { kCFRunLoopCommonModes });
        Test { stage, _turn: turn }
    }

    /// Watched in the common modes.
    pub(crate) fn watched() -> Test {
        let stage = Self::unwatched();
        stage.watch(&[]);
        stage
    }

    pub(crate) fn builder(&self) -> freezeframe_monitor::Builder {
        Monitor::builder("loop").interval(INTERVAL).report_file(&self.file, Size::default())
    }

    pub(crate) fn watch(&self, extra_modes: &[&str]) {
        let monitor = self.builder().watch_core_foundation(&RunLoop::current(), extra_modes).unwrap();
        self.set(monitor);
    }

    pub(crate) fn watch_by_ping(&self) {
        let monitor = self.builder().watch_core_foundation_by_ping(&RunLoop::current(), &[]).unwrap();
        self.set(monitor);
    }

    pub(crate) fn set(&self, monitor: Monitor) {
        assert!(self.monitor.replace(Some(monitor)).is_none());
    }

    /// Takes the monitor away, without stopping it.
    pub(crate) fn monitor(&self) -> Monitor {
        self.monitor.take().expect("a monitor watches")
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.monitor.borrow().as_ref().expect("a monitor watches").statistics()
    }

    /// Freezes that the monitor has detected.
    pub(crate) fn freezes(&self) -> u64 {
        self.statistics().freezes
    }

    /// Freezes that are in the file: their stacks have been taken.
    fn recorded(&self) -> usize {
        Report::open(&self.file).map_or(0, |report| report.records.len())
    }

    /// Does not return until the monitor has noticed, or a minute has passed. The loop is stopped a little later.
    #[inline(never)]
    pub(crate) fn freeze(self: &Rc<Self>) {
        self.freeze_doing(|| std::thread::sleep(Duration::from_millis(5)));
    }

    /// The same, doing something all the while.
    #[inline(never)]
    pub(crate) fn freeze_doing(self: &Rc<Self>, something: impl Fn()) {
        let (before, begun) = (self.recorded(), Instant::now());
        self.push(Step::Begins);
        while self.recorded() == before && begun.elapsed() < Duration::from_secs(60) {
            something();
        }
        self.push(Step::Ends);
        self.after(0.02, |stage| stage.run_loop.stop());
        std::hint::black_box(());
    }

    /// Long enough for a freeze, where none should be noticed.
    pub(crate) fn linger(&self) {
        self.push(Step::Begins);
        std::thread::sleep(INTERVAL * 15);
        self.push(Step::Ends);
    }

    pub(crate) fn push(&self, step: Step) {
        self.log.borrow_mut().push(step);
    }

    /// The activities seen so far; the log begins anew.
    pub(crate) fn activities(&self) -> Vec<Activity> {
        let activity = |step| if let Step::Saw(activity) = step { Some(activity) } else { None };
        self.log.take().into_iter().filter_map(activity).collect()
    }

    /// Runs the loop in the default mode until it is stopped.
    pub(crate) fn run_until_stopped(&self) {
        assert_eq!(self.run(120.0), CFRunLoopRunResult::Stopped);
    }

    /// Runs the loop in the default mode.
    pub(crate) fn run(&self, seconds: f64) -> CFRunLoopRunResult {
        // SAFETY: a constant.
        CFRunLoop::run_in_mode(unsafe { kCFRunLoopDefaultMode }, seconds, false)
    }

    /// Runs it in a mode that is not common, and keeps that mode from being empty.
    pub(crate) fn run_privately(&self, mode: &str, seconds: f64) {
        let mode = CFString::from_str(mode);
        let keeper = timer(3600.0, 0.0, || {});
        self.run_loop.add_timer(Some(&keeper), Some(&mode));
        CFRunLoop::run_in_mode(Some(&mode), seconds, false);
        self.run_loop.remove_timer(Some(&keeper), Some(&mode));
    }

    /// Calls back once, in the default mode.
    pub(crate) fn after(self: &Rc<Self>, seconds: f64, action: impl Fn(&Rc<Self>) + 'static) {
        let stage = self.clone();
        let timer = timer(seconds, 0.0, move || action(&stage));
        // SAFETY: a constant.
        self.run_loop.add_timer(Some(&timer), unsafe { kCFRunLoopDefaultMode });
    }

    /// Calls back at an activity, once, in the common modes.
    pub(crate) fn once_at(
        self: &Rc<Self>,
        order: CFIndex,
        activity: Activity,
        action: impl Fn(&Rc<Self>) + 'static,
    ) {
        let (stage, done) = (self.clone(), std::cell::Cell::new(false));
        let observer = observer(order, activity, move |_| {
            if !done.replace(true) {
                action(&stage);
            }
        });
        // SAFETY: a constant.
        self.run_loop.add_observer(Some(&observer), unsafe { kCFRunLoopCommonModes });
    }

    /// A source in the default mode, to be signalled.
    pub(crate) fn source(
        self: &Rc<Self>,
        action: impl Fn(&Rc<Self>, &CFRunLoopSource) + 'static,
    ) -> CFRetained<CFRunLoopSource> {
        let source = source(self.clone(), action);
        // SAFETY: a constant.
        self.run_loop.add_source(Some(&source), unsafe { kCFRunLoopDefaultMode });
        source
    }

    /// What was seen right before the one long callback, and right after it.
    pub(crate) fn around(&self) -> (Activity, Activity) {
        let log = self.log.borrow();
        let begins = log.iter().position(|step| *step == Step::Begins).expect("it has begun");
        let ends = log.iter().position(|step| *step == Step::Ends).expect("it has ended");
        match (log[begins - 1], log[ends + 1]) {
            (Step::Saw(before), Step::Saw(after)) => (before, after),
            other => panic!("{other:?}"),
        }
    }

    /// Stops the monitor, and gives the records of what was frozen in `freeze`: on a starved machine, there may be others.
    pub(crate) fn records(&self) -> Vec<Record> {
        drop(self.monitor.take());
        let mut report = Report::open(&self.file).unwrap();
        assert!(report.is_whole());
        let mut symbols = Symbols::new();
        report.records.iter_mut().for_each(|record| symbols.name_frames(record));
        report.records.retain(|record| {
            let frames = &record.watched().expect("the watched thread is in the record").frames;
            // `Stage::freeze` or `<Stage>::freeze`, as the compiler has it.
            let named = |name: &str| name.contains("Stage") && name.contains("::freeze");
            frames.iter().filter_map(|frame| frame.symbol.as_ref()).any(|symbol| named(&symbol.name))
        });
        report.records
    }

    /// The one freeze was noticed, once, and that was the last activity that the monitor knew of.
    pub(crate) fn was_seen_after(&self, activity: &str) {
        let records = self.records();
        let activities: Vec<_> = records.iter().map(|record| record.last_activity).collect();
        assert_eq!(activities, [Some(activity)]);
    }
}

pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} did not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

type OnActivity = Box<dyn Fn(Activity)>;

pub(crate) fn observer(
    order: CFIndex,
    activities: Activity,
    action: impl Fn(Activity) + 'static,
) -> CFRetained<CFRunLoopObserver> {
    unsafe extern "C-unwind" fn call(
        _: *mut CFRunLoopObserver,
        activity: CFRunLoopActivity,
        info: *mut c_void,
    ) {
        // SAFETY: the box below.
        (unsafe { &*info.cast::<OnActivity>() })(activity);
    }
    let mut context = CFRunLoopObserverContext {
        version: 0,
        info: boxed::<OnActivity>(Box::new(action)),
        retain: None,
        release: Some(unbox::<OnActivity>),
        copyDescription: None,
    };
    // SAFETY: the callback takes what the context holds.
    unsafe { CFRunLoopObserver::new(None, activities.0, true, order, Some(call), &mut context) }.unwrap()
}

type Action = Box<dyn Fn()>;

pub(crate) fn timer(after: f64, interval: f64, action: impl Fn() + 'static) -> CFRetained<CFRunLoopTimer> {
    unsafe extern "C-unwind" fn call(_: *mut CFRunLoopTimer, info: *mut c_void) {
        // SAFETY: the box below.
        (unsafe { &*info.cast::<Action>() })();
    }
    let mut context = CFRunLoopTimerContext {
        version: 0,
        info: boxed::<Action>(Box::new(action)),
        retain: None,
        release: Some(unbox::<Action>),
        copyDescription: None,
    };
    let at = CFAbsoluteTimeGetCurrent() + after;
    // SAFETY: the callback takes what the context holds.
    unsafe { CFRunLoopTimer::new(None, at, interval, 0, 0, Some(call), &mut context) }.unwrap()
}

fn source(
    stage: Rc<Stage>,
    action: impl Fn(&Rc<Stage>, &CFRunLoopSource) + 'static,
) -> CFRetained<CFRunLoopSource> {
    unsafe extern "C-unwind" fn call(info: *mut c_void) {
        // SAFETY: the box below.
        (unsafe { &*info.cast::<Action>() })();
    }
    let this = Rc::new(OnceCell::<std::ptr::NonNull<CFRunLoopSource>>::new());
    let itself = this.clone();
    let perform = move || {
        // SAFETY: it is being performed, so it is there.
        action(&stage, unsafe { itself.get().unwrap().as_ref() });
    };
    let mut context = CFRunLoopSourceContext {
        version: 0,
        info: boxed::<Action>(Box::new(perform)),
        retain: None,
        release: Some(unbox::<Action>),
        copyDescription: None,
        equal: None,
        hash: None,
        schedule: None,
        cancel: None,
        perform: Some(call),
    };
    // SAFETY: the callback takes what the context holds.
    let source = unsafe { CFRunLoopSource::new(None, 0, &mut context) }.unwrap();
    this.set(CFRetained::as_ptr(&source)).unwrap();
    source
}

fn boxed<T>(action: T) -> *mut c_void {
    Box::into_raw(Box::new(action)).cast()
}

unsafe extern "C-unwind" fn unbox<T>(info: *const c_void) {
    // SAFETY: made by `boxed`, and released once.
    drop(unsafe { Box::from_raw(info.cast_mut().cast::<T>()) });
}
