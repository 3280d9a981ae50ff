//! Who holds what the loop waits for. Linux: elsewhere the calls have not been tried.

use super::*;
use std::cell::UnsafeCell;

struct Lock(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: it is for many threads.
unsafe impl Sync for Lock {}

impl Lock {
    const fn new() -> Self {
        Self(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    fn with(&self, work: impl FnOnce()) {
        // SAFETY: it is initialised, and unlocked by who has locked it.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
        work();
        // SAFETY: likewise.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }

    fn try_for_a_while(&self) {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let until = libc::timespec { tv_sec: now.as_secs() as i64 + 2, tv_nsec: 0 };
        // SAFETY: it is initialised, and unlocked if it was locked.
        unsafe {
            if libc::pthread_mutex_timedlock(self.0.get(), &until) == 0 {
                libc::pthread_mutex_unlock(self.0.get());
            }
        }
    }
}

static OURS: Lock = Lock::new();
static THEIRS: Lock = Lock::new();

/// Freezes the loop at a lock that a thread named `holder` has, which does `work` meanwhile.
fn frozen(work: fn()) -> Record {
    let (mut records, _monitor) = watched(
        |builder| builder,
        |_, beacon| {
            turn(beacon, || {
                let (send, receive) = mpsc::channel();
                let holds = move || {
                    THEIRS.with(|| {
                        send.send(()).unwrap();
                        work();
                    });
                };
                OURS.with(|| {
                    std::thread::Builder::new().name("holder".into()).spawn(holds).unwrap();
                    receive.recv().unwrap();
                    THEIRS.with(|| {});
                });
            });
        },
    );
    assert_eq!(records.len(), 1, "one freeze");
    records.remove(0)
}

fn name(record: &Record, id: u32) -> &str {
    record.threads.iter().find(|thread| thread.id == id).map_or("?", |thread| &thread.name)
}

fn told(record: &Record) -> String {
    if emulated() {
        return "not tested: an emulator does not tell of system calls".into();
    }
    let by: Vec<&str> = record.blocked_by.iter().map(|step| name(record, step.waits_for)).collect();
    let rings: Vec<usize> = record.deadlocks.iter().map(Vec::len).collect();
    let cause = record.episode.as_ref().map(|episode| episode.cause);
    let cause = if cause == Some(CauseKind::Lock) { "lock" } else { "another cause" };
    let holder = by.first().copied().unwrap_or("nobody");
    format!("{cause}, held by {holder}, deadlocks of {rings:?}")
}

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario(
            "16",
            "the loop waits for a lock of a thread that sleeps",
            "lock, held by holder, deadlocks of []",
            || told(&frozen(|| std::thread::sleep(ms(700)))),
        ),
        scenario(
            "16",
            "each of two threads waits for the other's lock",
            "lock, held by holder, deadlocks of [2]",
            || told(&frozen(|| OURS.try_for_a_while())),
        ),
    ]
}
