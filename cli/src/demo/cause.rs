//! The ways in which the demo's table blocks. Each is a function of its own, to be found in the report: with a word of its own,
//! since of two functions that do the same the compiler keeps one.

use super::mutex::Mutex;
use super::run_loop::RunLoop;
use crate::arguments::Cause;
use std::hint::black_box;
use std::io::{Read, Write, pipe};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// How long a slow row blocks.
pub(crate) const BLOCKED_FOR: Duration = Duration::from_millis(500);

/// Blocks in one way.
#[derive(Debug)]
pub(crate) struct Blocker(Cause);

impl Blocker {
    pub(crate) const fn new(cause: Cause) -> Self {
        Self(cause)
    }

    #[inline(never)]
    pub(crate) fn block(&self) {
        match self.0 {
            Cause::Compute => block_by_computing(),
            Cause::Sleep => block_by_sleeping(),
            Cause::Lock => block_by_waiting_for_a_lock(),
            Cause::Deadlock => block_by_deadlock(),
            Cause::Io => block_by_reading_a_pipe(),
            // The loop itself does it: see `keep_busy`.
            Cause::Livelock => {}
        }
        black_box(self);
    }
}

#[inline(never)]
fn block_by_computing() {
    let begun = Instant::now();
    let mut primes = 0u64;
    let mut candidate = 2u64;
    // Nearly all of the time goes by in this function's own arithmetic, not in what it calls.
    while begun.elapsed() < BLOCKED_FOR {
        let round = candidate + 2_000;
        while candidate < round {
            let mut divisor = 2;
            // Not `is_multiple_of`, which a debug build would call.
            #[allow(clippy::manual_is_multiple_of)]
            while candidate % divisor != 0 {
                divisor += 1;
            }
            primes += (divisor == candidate) as u64;
            candidate += 1;
        }
    }
    black_box(primes);
}

/// A turn of the loop that is over soon, and leads to the next one at once.
#[inline(never)]
pub(crate) fn keep_busy(run_loop: &RunLoop, until: Instant, then: impl FnOnce(&RunLoop) + 'static) {
    if Instant::now() >= until {
        return then(run_loop);
    }
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(200) {
        std::hint::spin_loop();
    }
    run_loop.after(Duration::ZERO, move |run_loop| keep_busy(run_loop, until, then));
}

#[inline(never)]
fn block_by_sleeping() {
    std::thread::sleep(BLOCKED_FOR);
    black_box("slept");
}

#[inline(never)]
fn block_by_waiting_for_a_lock() {
    let (lock, (send, locked)) = (Arc::new(Mutex::new()), mpsc::channel());
    let theirs = lock.clone();
    let holder = std::thread::Builder::new().name("lock-holder".into()).spawn(move || {
        let _guard = theirs.lock();
        let _ = send.send(());
        hold_the_lock();
    });
    if locked.recv().is_ok() {
        drop(lock.lock());
    }
    join(holder);
}

#[inline(never)]
fn hold_the_lock() {
    std::thread::sleep(BLOCKED_FOR);
    black_box("held");
}

/// Each of two threads holds what the other one waits for, until one of them gives up.
#[inline(never)]
fn block_by_deadlock() {
    let (ours, theirs) = (Arc::new(Mutex::new()), Arc::new(Mutex::new()));
    let (send, locked) = mpsc::channel();
    let (first, second) = (theirs.clone(), ours.clone());
    let held = ours.lock();
    let other = std::thread::Builder::new().name("other-half".into()).spawn(move || {
        let _guard = first.lock();
        let _ = send.send(());
        take_the_other_lock(&second);
    });
    if locked.recv().is_ok() {
        drop(theirs.lock());
    }
    drop(held);
    join(other);
}

#[inline(never)]
fn take_the_other_lock(lock: &Mutex) {
    drop(black_box(lock.lock_within(BLOCKED_FOR)));
}

#[inline(never)]
fn block_by_reading_a_pipe() {
    let Ok((mut reader, mut writer)) = pipe() else { return };
    let slow = std::thread::Builder::new().name("slow-writer".into()).spawn(move || {
        std::thread::sleep(BLOCKED_FOR);
        let _ = writer.write_all(b"!");
    });
    read_byte(&mut reader);
    join(slow);
}

#[inline(never)]
fn read_byte(reader: &mut impl Read) {
    let _ = black_box(reader.read(&mut [0]));
}

fn join(thread: std::io::Result<std::thread::JoinHandle<()>>) {
    if let Ok(thread) = thread {
        let _ = thread.join();
    }
}
