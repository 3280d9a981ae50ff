//! In which order observers are called, and when they are not.

use crate::stage::{Activity, LAST, Stage, observer};
use objc2_core_foundation::{CFIndex, CFString, kCFRunLoopCommonModes};
use std::cell::RefCell;
use std::rc::Rc;

/// A list of what was called, in that order.
type Calls = Rc<RefCell<Vec<(&'static str, Activity)>>>;

fn calls_to(calls: &Calls, stage: &Stage, name: &'static str, order: CFIndex) {
    let calls = calls.clone();
    let observer =
        observer(order, Activity::AllActivities, move |activity| calls.borrow_mut().push((name, activity)));
    // SAFETY: a constant.
    stage.run_loop.add_observer(Some(&observer), unsafe { kCFRunLoopCommonModes });
}

#[test]
fn the_order_ascends_at_every_activity_and_equal_orders_run_in_the_order_of_adding() {
    let (stage, calls) = (Stage::unwatched(), Calls::default());
    for (name, order) in [
        ("last, added first", CFIndex::MAX),
        ("zero", 0),
        ("last, added second", CFIndex::MAX),
        ("first, added second to last", CFIndex::MIN),
        ("INT_MAX", LAST),
        ("first, added last", CFIndex::MIN),
    ] {
        calls_to(&calls, &stage, name, order);
    }
    stage.after(0.01, |stage| stage.run_loop.stop());
    stage.after(3600.0, |_| {});
    stage.run_until_stopped();
    let calls = calls.take();
    for activity in [
        Activity::Entry,
        Activity::BeforeTimers,
        Activity::BeforeSources,
        Activity::BeforeWaiting,
        Activity::AfterWaiting,
        Activity::Exit,
    ] {
        let names: Vec<_> = calls.iter().filter(|call| call.1 == activity).map(|call| call.0).collect();
        let expected = [
            "first, added second to last",
            "first, added last",
            "zero",
            "INT_MAX",
            "last, added first",
            "last, added second",
        ];
        assert_eq!(names, expected, "{activity:?}");
    }
}

#[test]
fn an_observer_that_runs_a_nested_loop_itself_misses_it() {
    let (stage, calls) = (Stage::unwatched(), Calls::default());
    calls_to(&calls, &stage, "another", 1);
    stage.once_at(0, Activity::BeforeSources | Activity::Exit, {
        let calls = calls.clone();
        move |stage| {
            calls.borrow_mut().push(("itself", Activity::BeforeSources));
            stage.run(0.01);
        }
    });
    stage.after(0.02, |stage| stage.run_loop.stop());
    stage.after(3600.0, |_| {});
    stage.run_until_stopped();
    let calls = calls.take();
    let count = |name, activity| calls.iter().filter(|call| **call == (name, activity)).count();
    assert_eq!((count("another", Activity::Entry), count("another", Activity::Exit)), (2, 2));
    assert_eq!(count("itself", Activity::BeforeSources), 1);
    // In the middle of the outer run's BeforeSources, which the observer behind it sees after the nested run.
    let nested = calls.iter().rposition(|call| *call == ("another", Activity::Entry)).unwrap();
    let outer = calls.iter().position(|call| call.0 == "itself").unwrap();
    assert_eq!(nested, outer + 1);
}

#[test]
fn a_mode_that_becomes_common_later_gets_the_observers() {
    let stage = Stage::watched();
    let mode = CFString::from_str("later");
    stage.run_privately("later", 0.01);
    assert_eq!(stage.activities(), []);
    stage.run_loop.add_common_mode(Some(&mode));
    stage.run_privately("later", 0.01);
    let activities = stage.activities();
    assert_eq!((activities.first(), activities.last()), (Some(&Activity::Entry), Some(&Activity::Exit)));
}

#[test]
fn our_own_observers_see_a_mode_that_becomes_common_later() {
    let stage = Stage::watched();
    let mode = CFString::from_str("later");
    stage.run_loop.add_common_mode(Some(&mode));
    stage.once_at(0, Activity::AfterWaiting, |stage| stage.freeze());
    stage.run_privately("later", 0.05);
    stage.was_seen_after("AfterWaiting");
}
