//! The kernel's part: threads that sleep on a word, and a clock that moves only when the scenario says so.

use crate::atomic::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};

#[derive(Default)]
struct State {
    now_ns: u64,
    /// For each word, by its address, how often its sleepers were woken.
    wakes: Vec<(usize, u64)>,
}

struct Kernel {
    state: Mutex<State>,
    changed: Condvar,
}

loom::lazy_static! {
    static ref KERNEL: Kernel = Kernel { state: Mutex::new(State::default()), changed: Condvar::new() };
}

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awake {
    /// The word did not have the value.
    Changed,
    /// It was woken.
    Woken,
    /// The clock has reached the deadline.
    TimedOut,
}

fn address(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word) as usize
}

impl State {
    fn wakes(&mut self, word: usize) -> &mut u64 {
        let at = self.wakes.iter().position(|(known, _)| *known == word).unwrap_or_else(|| {
            self.wakes.push((word, 0));
            self.wakes.len() - 1
        });
        &mut self.wakes[at].1
    }
}

/// Sleeps while `*word == expected`, until woken or until the clock reaches the deadline. The comparison and the falling asleep
/// are one step, as in the kernel.
pub fn wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) -> Awake {
    let mut state = KERNEL.state.lock().unwrap();
    if word.load(Ordering::Relaxed) != expected {
        return Awake::Changed;
    }
    let begun = *state.wakes(address(word));
    loop {
        if deadline_ns.is_some_and(|deadline| state.now_ns >= deadline) {
            return Awake::TimedOut;
        }
        if *state.wakes(address(word)) != begun {
            return Awake::Woken;
        }
        state = KERNEL.changed.wait(state).unwrap();
    }
}

/// Wakes everybody who sleeps on the word.
pub fn wake(word: &AtomicU32) {
    *KERNEL.state.lock().unwrap().wakes(address(word)) += 1;
    KERNEL.changed.notify_all();
}

/// The time.
pub fn now_ns() -> u64 {
    KERNEL.state.lock().unwrap().now_ns
}

/// Lets time pass.
pub fn advance(to_ns: u64) {
    KERNEL.state.lock().unwrap().now_ns = to_ns;
    KERNEL.changed.notify_all();
}
