//! Who holds what the loop waits for. Linux: elsewhere the calls have not been tried.

use super::*;
use freezeframe_report::read::{LockInfo, LockOwner};
use std::cell::UnsafeCell;
use std::sync::{Condvar, OnceLock, RwLock};

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
    let by: Vec<&str> = record.blocked_by.iter().map(|step| name(record, step.waits_for)).collect();
    let rings: Vec<usize> = record.deadlocks.iter().map(Vec::len).collect();
    let cause = record.episode.as_ref().map(|episode| episode.cause);
    let cause = if cause == Some(CauseKind::Lock) { "lock" } else { "another cause" };
    let holder = by.first().copied().unwrap_or("nobody");
    format!("{cause}, held by {holder}, deadlocks of {rings:?}")
}

/// The causes of freezes by these, each with the kind of the lock that it waits for.
fn causes_of(blocks: &[fn()]) -> String {
    let set = |builder: Builder| builder.record_repeats(true);
    let (records, _) = watched(set, |_, beacon| blocks.iter().for_each(|block| turn(beacon, block)));
    let lock =
        |record: &Record| record.watched().and_then(|thread| thread.lock.as_ref().map(|lock| lock.kind));
    let told = |record: &Record| match (cause_of(record), lock(record)) {
        (Some(cause), Some(lock)) => format!("{cause:?} ({lock})"),
        (cause, _) => cause.map_or_else(String::new, |cause| format!("{cause:?}")),
    };
    records.iter().map(told).collect::<Vec<_>>().join(", ")
}

/// Another thread does something to this for 500 ms, and says when it has begun.
fn while_another<T: Send + Sync + 'static>(shared: &Arc<T>, holds: fn(&T, &dyn Fn()), then: impl FnOnce(&T)) {
    let (send, begun) = mpsc::channel();
    let theirs = shared.clone();
    let other = std::thread::spawn(move || {
        holds(&theirs, &|| {
            send.send(()).unwrap();
            std::thread::sleep(ms(500));
        });
    });
    begun.recv().unwrap();
    then(shared);
    other.join().unwrap();
}

fn writes_while_another_reads() {
    while_another(
        &Arc::new(RwLock::new(())),
        |lock, hold| {
            let _guard = lock.read();
            hold();
        },
        |lock| drop(lock.write()),
    );
}

fn waits_for_a_condition_that_was_told_of_twice() {
    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    (0..2).for_each(|_| pair.1.notify_all());
    while_another(
        &pair,
        |(done, told), hold| {
            hold();
            *done.lock().unwrap() = true;
            told.notify_all();
        },
        |(done, told)| drop(told.wait_while(done.lock().unwrap(), |done| !*done)),
    );
}

fn waits_for_anothers_initialisation() {
    while_another(
        &Arc::new(OnceLock::new()),
        |once, hold| {
            once.get_or_init(hold);
        },
        |once| {
            once.get_or_init(|| {});
        },
    );
}

fn waits_for_a_files_lock() {
    let lock = |descriptor: &std::fs::File, how| {
        use std::os::fd::AsRawFd;
        // SAFETY: an open file, which the call only locks.
        unsafe { libc::flock(descriptor.as_raw_fd(), how) };
    };
    let path = file();
    let (ours, theirs) = (std::fs::File::create(&path).unwrap(), std::fs::File::open(&path).unwrap());
    lock(&theirs, libc::LOCK_EX);
    while_another(
        &Arc::new(Mutex::new(Some(theirs))),
        |theirs, hold| {
            hold();
            theirs.lock().unwrap().take();
        },
        |_| lock(&ours, libc::LOCK_EX),
    );
    std::fs::remove_file(path).unwrap();
}

/// The child stands still between its start and its program.
fn starts_a_program_that_does_not_begin() {
    let path = file();
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a path.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    while_another(
        &Arc::new(name),
        |name, hold| {
            hold();
            drop(std::fs::OpenOptions::new().write(true).open(name.to_str().unwrap()));
        },
        |name| {
            let (arguments, environment) =
                ([c"true".as_ptr().cast_mut(), std::ptr::null_mut()], [std::ptr::null_mut()]);
            // SAFETY: the actions are initialised, used and given back; the lists end with null; the child is waited for.
            unsafe {
                let (mut actions, mut child) = (std::mem::zeroed(), 0);
                libc::posix_spawn_file_actions_init(&mut actions);
                libc::posix_spawn_file_actions_addopen(&mut actions, 0, name.as_ptr(), libc::O_RDONLY, 0);
                let (arguments, environment) = (arguments.as_ptr(), environment.as_ptr());
                let program = c"/bin/true".as_ptr();
                libc::posix_spawn(&mut child, program, &actions, std::ptr::null(), arguments, environment);
                libc::posix_spawn_file_actions_destroy(&mut actions);
                libc::waitpid(child, &mut 0, 0);
            }
        },
    );
    std::fs::remove_file(path).unwrap();
}

fn selects_nothing() {
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 500_000 };
    let none = std::ptr::null_mut;
    // SAFETY: no sets, and a time.
    unsafe { libc::select(0, none(), none(), none(), &mut time) };
}

/// A lock of another's who has ended with it.
fn waits_for_a_lock_left_behind() -> String {
    let (mut records, _) = watched(
        |builder| builder,
        |_, beacon| {
            let lock = Arc::new(Lock::new());
            let theirs = lock.clone();
            // SAFETY: it is initialised.
            let leaves = move || unsafe { _ = libc::pthread_mutex_lock(theirs.0.get()) };
            std::thread::spawn(leaves).join().unwrap();
            turn(beacon, || lock.try_for_a_while());
        },
    );
    let lock = records.pop().and_then(|record| Some(record.watched()?.lock.clone()));
    match lock.flatten() {
        Some(LockInfo { kind, owner: LockOwner::Ended(_), .. }) => {
            format!("{kind} of a thread that has ended")
        }
        other => format!("{other:?}"),
    }
}

/// Each of two threads waits for the other's lock, whose owner inherits priorities: who comes last is told so by the kernel.
#[cfg(target_env = "gnu")]
fn waits_where_the_kernel_refuses() {
    let inheriting = || {
        let lock = Arc::new(Lock::new());
        // SAFETY: the attributes are initialised, used and given back; the lock is initialised where it stays.
        unsafe {
            let mut attributes = std::mem::zeroed();
            libc::pthread_mutexattr_init(&mut attributes);
            libc::pthread_mutexattr_setprotocol(&mut attributes, libc::PTHREAD_PRIO_INHERIT);
            libc::pthread_mutex_init(lock.0.get(), &attributes);
            libc::pthread_mutexattr_destroy(&mut attributes);
        }
        lock
    };
    let (ours, theirs) = (inheriting(), inheriting());
    let (send, locked) = mpsc::channel();
    let (first, second) = (theirs.clone(), ours.clone());
    let other = std::thread::spawn(move || {
        first.with(|| {
            send.send(()).unwrap();
            second.with(|| {});
        });
    });
    ours.with(|| {
        locked.recv().unwrap();
        std::thread::sleep(ms(50));
        theirs.try_for_a_while();
    });
    other.join().unwrap();
}

/// A semaphore on its own stack.
#[cfg(target_env = "gnu")]
fn waits_for_a_semaphore_of_its_own() {
    struct Semaphore(UnsafeCell<libc::sem_t>);
    // SAFETY: it is for many threads.
    unsafe impl Sync for Semaphore {}
    // SAFETY: a semaphore may begin as zeros.
    let semaphore = Semaphore(UnsafeCell::new(unsafe { std::mem::zeroed() }));
    std::thread::scope(|scope| {
        let semaphore = &semaphore;
        scope.spawn(move || {
            std::thread::sleep(ms(500));
            // SAFETY: it lives.
            unsafe { libc::sem_post(semaphore.0.get()) };
        });
        // SAFETY: likewise.
        unsafe { libc::sem_wait(semaphore.0.get()) };
    });
}

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        #[cfg(target_env = "gnu")]
        scenario("16", "the kernel refuses a lock; a semaphore on the own stack", "Lock, Peer", || {
            causes_of(&[waits_where_the_kernel_refuses, waits_for_a_semaphore_of_its_own])
        })
        .not_emulated(NO_CALLS),
        scenario(
            "11",
            "RwLock::write, OnceLock, a condition told of twice",
            "Lock (Rust read-write lock), Lock, Peer",
            || {
                causes_of(&[
                    writes_while_another_reads,
                    waits_for_anothers_initialisation,
                    waits_for_a_condition_that_was_told_of_twice,
                ])
            },
        )
        .not_emulated(NO_CALLS),
        scenario(
            "11",
            "flock, a program that does not begin, an empty select",
            "Lock, Child, Sleeping",
            || causes_of(&[waits_for_a_files_lock, starts_a_program_that_does_not_begin, selects_nothing]),
        )
        .not_emulated(NO_CALLS),
        scenario(
            "16",
            "a lock whose owner has ended",
            "mutex of a thread that has ended",
            waits_for_a_lock_left_behind,
        )
        .not_emulated(NO_CALLS),
        scenario(
            "16",
            "the loop waits for a lock of a thread that sleeps",
            "lock, held by holder, deadlocks of []",
            || told(&frozen(|| std::thread::sleep(ms(700)))),
        )
        .not_emulated(NO_CALLS),
        scenario(
            "16",
            "each of two threads waits for the other's lock",
            "lock, held by holder, deadlocks of [2]",
            || told(&frozen(|| OURS.try_for_a_while())),
        )
        .not_emulated(NO_CALLS),
    ]
}
