//! As in `freezes`, with run-loop blocks and the main queue, for which the binding needs the runtime of blocks.

use crate::scripted::{perform, post_to_queue};
use crate::stage::{Activity, Stage};
use objc2_core_foundation::{CFRetained, CFRunLoop};
use std::rc::Rc;
use std::time::Duration;

/// Rights of the loop's own thread and another one's to what is used on one of them at a time.
struct Anywhere<T>(T);
// SAFETY: the loop is thread-safe, and blocks with a stage run on the stage's own thread.
unsafe impl<T> Send for Anywhere<T> {}

impl<T> Anywhere<T> {
    fn get(&self) -> &T {
        &self.0
    }
}

fn freezing(stage: &Rc<Stage>) -> impl FnOnce() + Send + 'static {
    let stage = Anywhere(stage.clone());
    move || stage.get().freeze()
}

/// Does it a little later, on another thread.
fn from_another_thread(stage: &Rc<Stage>, act: impl FnOnce(&CFRetained<CFRunLoop>) + Send + 'static) {
    let run_loop = Anywhere(stage.run_loop.clone());
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        act(run_loop.get());
    });
}

#[test]
fn in_a_block_performed_by_a_timer() {
    let stage = Stage::watched();
    stage.after(0.02, |stage| perform(&stage.run_loop, freezing(stage)));
    stage.after(0.05, |_| {});
    stage.run_until_stopped();
    assert_eq!(stage.around(), (Activity::AfterWaiting, Activity::BeforeTimers));
    stage.was_seen_after("AfterWaiting");
}

#[test]
fn in_a_block_performed_by_another_thread() {
    let stage = Stage::watched();
    stage.after(3600.0, |_| {});
    let block = freezing(&stage);
    from_another_thread(&stage, |run_loop| {
        perform(run_loop, block);
        run_loop.wake_up();
    });
    stage.run_until_stopped();
    assert_eq!(stage.around(), (Activity::AfterWaiting, Activity::BeforeTimers));
    stage.was_seen_after("AfterWaiting");
}

#[test]
fn in_a_block_queued_before_the_run() {
    let stage = Stage::watched();
    stage.after(3600.0, |_| {});
    perform(&stage.run_loop, freezing(&stage));
    stage.run_until_stopped();
    assert_eq!(stage.around(), (Activity::BeforeSources, Activity::BeforeWaiting));
    stage.was_seen_after("BeforeSources");
}

#[test]
fn in_the_queue_while_the_loop_sleeps() {
    let stage = Stage::watched();
    stage.after(3600.0, |_| {});
    let block = freezing(&stage);
    from_another_thread(&stage, |run_loop| post_to_queue(run_loop, block));
    stage.run_until_stopped();
    assert_eq!(stage.around(), (Activity::AfterWaiting, Activity::BeforeTimers));
    stage.was_seen_after("AfterWaiting");
}

#[test]
fn in_the_queue_posted_to_by_a_timer() {
    let stage = Stage::watched();
    stage.after(0.02, |stage| post_to_queue(&stage.run_loop, freezing(stage)));
    stage.after(3600.0, |_| {});
    stage.run_until_stopped();
    assert_eq!(stage.around(), (Activity::BeforeSources, Activity::BeforeTimers));
    stage.was_seen_after("BeforeSources");
}
