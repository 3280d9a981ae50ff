//! A loop that calls the program's handler before and after it waits, as winit's does.

use crate::{LONG, Stage, block_for_too_long};
use freezeframe_monitor::{Activity, Beacon};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// What the loop calls, in winit's words.
trait Handler {
    /// Right after the wait.
    fn new_events(&mut self);
    fn user_event(&mut self, event: Event);
    /// Right before the wait.
    fn about_to_wait(&mut self);
}

enum Event {
    Turn,
    Block,
    Quit,
}

/// Waits for an event, or does not wait at all: winit's `ControlFlow::Wait` and `Poll`.
fn run(events: &Receiver<Event>, polls: bool, handler: &mut impl Handler) {
    let patience = if polls { Duration::ZERO } else { Duration::MAX };
    loop {
        handler.about_to_wait();
        let event = events.recv_timeout(patience);
        handler.new_events();
        match event {
            Ok(Event::Quit) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(event) => handler.user_event(event),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// The program's part.
struct Program<'a> {
    beacon: Beacon,
    stage: &'a Stage,
}

impl Handler for Program<'_> {
    fn new_events(&mut self) {
        self.beacon.transition(Activity::AfterWaiting);
    }

    fn user_event(&mut self, event: Event) {
        if let Event::Block = event {
            block_for_too_long(&self.stage.file);
        }
    }

    fn about_to_wait(&mut self) {
        self.beacon.transition(Activity::BeforeWaiting);
    }
}

#[test]
fn an_event_that_takes_too_long_is_a_freeze_and_a_long_wait_is_none() {
    let stage = Stage::new();
    let (monitor, beacon) = stage.builder().watch_run_loop().unwrap();
    let (send, events) = channel();
    let sender = std::thread::spawn(move || {
        [Event::Turn, Event::Block, Event::Turn].into_iter().for_each(|event| send.send(event).unwrap());
        std::thread::sleep(LONG);
        send.send(Event::Quit).unwrap();
    });
    beacon.transition(Activity::Entry);
    run(&events, false, &mut Program { beacon, stage: &stage });
    sender.join().unwrap();
    monitor.stop();
    let records = stage.records("block_for_too_long");
    assert_eq!(records.len(), 1, "the wait after it is none");
    assert_eq!(records[0].last_activity, Some("AfterWaiting"));
    assert!(stage.records("recv_timeout").is_empty(), "a wait is no freeze");
}

#[test]
fn a_loop_that_polls_and_never_waits_is_not_frozen() {
    let stage = Stage::new();
    let (monitor, beacon) = stage.builder().watch_run_loop().unwrap();
    let (send, events) = channel();
    let begun = Instant::now();
    let sender = std::thread::spawn(move || {
        while begun.elapsed() < LONG {
            send.send(Event::Turn).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    run(&events, true, &mut Program { beacon, stage: &stage });
    sender.join().unwrap();
    assert_eq!(monitor.statistics().freezes, 0);
}
