//! Threads that wait for real locks of the C library's and of Rust's: each lock is found with its address and its owner.
#![cfg(any(target_os = "linux", target_os = "android"))]

mod common;

use common::{deaf, turn};
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::locks::{Chain, ChainEnd, LockKind, LockWait, Owner};
use freezeframe_unwind::snapshot::{Options, Snapshot};
use freezeframe_unwind::suspend::Purpose;
use freezeframe_unwind::threads::{RunState, ThreadId, current, facts};
use std::cell::UnsafeCell;
use std::sync::{Arc, Condvar, Mutex, RwLock, mpsc};
use std::time::Duration;

type Storage = (ImageTable, Snapshot<64, 2048, { 1 << 20 }>);
static STORAGE: Mutex<Storage> = Mutex::new((ImageTable::new(), Snapshot::new()));

/// A lock of the C library's, at one address.
struct Raw<T>(Box<UnsafeCell<T>>);

// SAFETY: these are for many threads.
unsafe impl<T> Send for Raw<T> {}
// SAFETY: likewise.
unsafe impl<T> Sync for Raw<T> {}

impl<T> Raw<T> {
    fn new(value: T) -> &'static Self {
        Box::leak(Box::new(Self(Box::new(UnsafeCell::new(value)))))
    }

    fn get(&self) -> *mut T {
        self.0.get()
    }

    fn address(&self) -> u64 {
        self.get() as u64
    }
}

type Mutexes = &'static Raw<libc::pthread_mutex_t>;
type ReadWrites = &'static Raw<libc::pthread_rwlock_t>;

/// One of the functions that set an attribute.
type Attribute = unsafe extern "C" fn(*mut libc::pthread_mutexattr_t, libc::c_int) -> libc::c_int;

/// A mutex with this attribute.
fn mutex(attribute: Option<(Attribute, libc::c_int)>) -> Mutexes {
    // SAFETY: the attributes are initialised, used, and given back; the mutex is initialised where it stays.
    unsafe {
        let mutex = Raw::new(libc::PTHREAD_MUTEX_INITIALIZER);
        let mut attributes = std::mem::zeroed();
        assert_eq!(libc::pthread_mutexattr_init(&mut attributes), 0);
        if let Some((set, value)) = attribute {
            assert_eq!(set(&mut attributes, value), 0);
        }
        assert_eq!(libc::pthread_mutex_init(mutex.get(), &attributes), 0);
        libc::pthread_mutexattr_destroy(&mut attributes);
        mutex
    }
}

fn lock(mutex: Mutexes) {
    // SAFETY: it is initialised.
    unsafe { libc::pthread_mutex_lock(mutex.get()) };
}

/// Starts a thread that does `work`, which waits for good, and returns its id once it waits.
fn blocked(work: impl FnOnce() + Send + 'static) -> ThreadId {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        send.send(current()).unwrap();
        work();
    });
    let id = receive.recv().unwrap();
    wait_for_wait(id);
    id
}

/// Returns once a thread waits in the kernel, and has done so for a while: one that was stopped begins its wait anew.
fn wait_for_wait(id: ThreadId) {
    let mut calm = 0;
    while calm < 20 {
        let asleep = facts(id);
        calm = if asleep.state == RunState::Sleeping && asleep.system_call.is_some() { calm + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// An emulator, which is told by a deaf thread of its own, does not tell of the system call that a thread waits in.
fn waits_are_untold() -> bool {
    let untold = !deaf().is_empty();
    if untold {
        println!("not tested: an emulator does not tell of the system call that a thread waits in");
    }
    untold
}

fn locks(purpose: Purpose) -> Vec<(ThreadId, Option<LockWait>)> {
    let suspender = freezeframe_unwind::init::init(Default::default()).unwrap();
    let (images, snapshot) = &mut *STORAGE.lock().unwrap();
    images.refresh().unwrap();
    snapshot.capture(&suspender, images, &Options { purpose, ..Options::default() }).unwrap();
    snapshot.view().threads.iter().map(|thread| (thread.thread, thread.lock)).collect()
}

fn check(expected: &[(&str, ThreadId, Option<LockWait>)]) {
    for purpose in [Purpose::OneThread, Purpose::AllTogether] {
        expected.iter().for_each(|(_, thread, _)| wait_for_wait(*thread));
        let found = locks(purpose);
        for (name, thread, lock) in expected {
            let found = found.iter().find(|(id, _)| id == thread).map(|(_, lock)| *lock);
            assert_eq!(found, Some(*lock), "{name}, {purpose:?}");
        }
    }
}

#[cfg(target_env = "gnu")]
#[test]
fn each_lock_of_the_c_library_is_found_with_its_owner() {
    if waits_are_untold() {
        return;
    }
    let (_turn, _) = turn();
    let me = Owner::Thread(current());
    let normal = mutex(None);
    let recursive = mutex(Some((libc::pthread_mutexattr_settype, libc::PTHREAD_MUTEX_RECURSIVE)));
    let robust = mutex(Some((libc::pthread_mutexattr_setrobust, libc::PTHREAD_MUTEX_ROBUST)));
    let inherits = mutex(Some((libc::pthread_mutexattr_setprotocol, libc::PTHREAD_PRIO_INHERIT)));
    let shared = mutex(Some((libc::pthread_mutexattr_setpshared, libc::PTHREAD_PROCESS_SHARED)));
    for mutex in [normal, recursive, robust, inherits, shared] {
        lock(mutex);
    }
    let (left_behind, left_written) = (mutex(None), Raw::new(libc::PTHREAD_RWLOCK_INITIALIZER));
    let dead = {
        let (send, receive) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            lock(left_behind);
            // SAFETY: it is initialised.
            unsafe { libc::pthread_rwlock_wrlock(left_written.get()) };
            send.send(current()).unwrap();
        });
        thread.join().unwrap();
        receive.recv().unwrap()
    };
    let (written, read) =
        (Raw::new(libc::PTHREAD_RWLOCK_INITIALIZER), Raw::new(libc::PTHREAD_RWLOCK_INITIALIZER));
    // SAFETY: they are initialised.
    unsafe {
        libc::pthread_rwlock_wrlock(written.get());
        libc::pthread_rwlock_rdlock(read.get());
    }
    let condition = Raw::new(libc::PTHREAD_COND_INITIALIZER);
    let its_mutex = mutex(None);
    // SAFETY: a semaphore may begin as zeros.
    let semaphore = Raw::<libc::sem_t>::new(unsafe { std::mem::zeroed() });
    // SAFETY: a stream of its own, which stays.
    let stream = unsafe { libc::tmpfile() } as usize;
    unsafe extern "C" {
        fn flockfile(stream: *mut libc::FILE);
    }
    // SAFETY: it is open.
    unsafe { flockfile(stream as *mut libc::FILE) };

    let wait = |kind, address, owner| Some(LockWait { kind, address, owner });
    let waits_for = |mutex: Mutexes| blocked(move || lock(mutex));
    let joined = blocked(move || {
        loop {
            std::thread::park();
        }
    });
    let thread = Raw::new(0 as libc::pthread_t);
    // SAFETY: the new thread waits for good; its handle is kept.
    let joins = unsafe {
        extern "C" fn forever(_: *mut libc::c_void) -> *mut libc::c_void {
            loop {
                std::thread::park();
            }
        }
        assert_eq!(libc::pthread_create(thread.get(), std::ptr::null(), forever, std::ptr::null_mut()), 0);
        blocked(move || {
            libc::pthread_join(*thread.get(), std::ptr::null_mut());
        })
    };
    let waits_for_a_time = |mutex: Mutexes| {
        blocked(move || {
            // SAFETY: it is initialised.
            unsafe {
                let until = libc::timespec { tv_sec: 4_000_000_000, tv_nsec: 0 };
                libc::pthread_mutex_timedlock(mutex.get(), &until);
            }
        })
    };
    let reads = |lock: ReadWrites| {
        // SAFETY: it is initialised.
        blocked(move || unsafe { _ = libc::pthread_rwlock_rdlock(lock.get()) })
    };
    let writes = |lock: ReadWrites| {
        // SAFETY: it is initialised.
        blocked(move || unsafe { _ = libc::pthread_rwlock_wrlock(lock.get()) })
    };
    let (first_writer, second_writer) = (writes(read), writes(read));
    // SAFETY: likewise.
    let waits = blocked(move || unsafe {
        libc::pthread_mutex_lock(its_mutex.get());
        libc::pthread_cond_wait(condition.get(), its_mutex.get());
    });
    // SAFETY: likewise.
    let semaphore = blocked(move || unsafe { _ = libc::sem_wait(semaphore.get()) });
    // SAFETY: the stream is open.
    let prints = blocked(move || unsafe { _ = libc::fputs(c"x".as_ptr(), stream as *mut libc::FILE) });

    let expected = [
        ("a mutex", waits_for(normal), wait(LockKind::Mutex, normal.address(), me)),
        ("with a time", waits_for_a_time(normal), wait(LockKind::Mutex, normal.address(), me)),
        ("recursive", waits_for(recursive), wait(LockKind::Mutex, recursive.address(), me)),
        ("robust", waits_for(robust), wait(LockKind::RobustMutex, robust.address(), me)),
        ("inheriting", waits_for(inherits), wait(LockKind::PriorityMutex, inherits.address(), me)),
        ("shared", waits_for(shared), wait(LockKind::Mutex, shared.address(), me)),
        (
            "left behind",
            waits_for(left_behind),
            wait(LockKind::Mutex, left_behind.address(), Owner::Ended(dead)),
        ),
        (
            "left behind, with a time",
            waits_for_a_time(left_behind),
            wait(LockKind::Mutex, left_behind.address(), Owner::Ended(dead)),
        ),
        (
            "left behind by a writer, to a reader",
            reads(left_written),
            wait(LockKind::ReadWrite, left_written.address(), Owner::Ended(dead)),
        ),
        (
            "left behind by a writer, to a writer",
            writes(left_written),
            wait(LockKind::ReadWrite, left_written.address(), Owner::Ended(dead)),
        ),
        ("a reader", reads(written), wait(LockKind::ReadWrite, written.address(), me)),
        ("a writer", writes(written), wait(LockKind::ReadWrite, written.address(), me)),
        (
            "a writer among readers",
            first_writer,
            wait(LockKind::ReadWrite, read.address(), Owner::Readers(1)),
        ),
        ("a second one", second_writer, wait(LockKind::ReadWrite, read.address(), Owner::Readers(1))),
        ("a condition variable", waits, None),
        ("a semaphore", semaphore, None),
        ("a parked thread", joined, None),
    ];
    for (thread, lock) in locks(Purpose::OneThread) {
        if thread == joins {
            let lock = lock.expect("it joins");
            assert_eq!(lock.kind, LockKind::ThreadEnd);
            assert!(lock.holder().is_some_and(|holder| holder != joins), "{lock:?}");
        }
        if thread == prints {
            let lock = lock.expect("it prints");
            assert_eq!((lock.kind, lock.owner), (LockKind::Stdio, me));
        }
    }
    check(&expected);
    // The C library ends the process of who waits for such a mutex when its owner ends.
    // SAFETY: it is held by this thread.
    unsafe { libc::pthread_mutex_unlock(inherits.get()) };
}

#[test]
fn locks_of_the_standard_library_are_known_and_their_owners_are_not() {
    if waits_are_untold() {
        return;
    }
    let (_turn, _) = turn();
    let mutex: &'static Mutex<u64> = Box::leak(Box::default());
    let lock: &'static RwLock<u64> = Box::leak(Box::default());
    let read: &'static RwLock<u64> = Box::leak(Box::default());
    let (_held, _written, _read) = (mutex.lock().unwrap(), lock.write().unwrap(), read.read().unwrap());
    let waits = blocked(|| drop(mutex.lock()));
    let reads = blocked(|| drop(lock.read()));
    let writes = blocked(|| drop(read.write()));
    let pair = Arc::new((Mutex::new(()), Condvar::new()));
    let idle = blocked(move || drop(pair.1.wait(pair.0.lock().unwrap())));
    let pair = Arc::new((Mutex::new(()), Condvar::new()));
    (0..2).for_each(|_| pair.1.notify_all());
    let long = Duration::from_secs(100_000);
    let timed = blocked(move || drop(pair.1.wait_timeout(pair.0.lock().unwrap(), long)));
    let found = locks(Purpose::OneThread);
    let of = |thread| found.iter().find(|(id, _)| *id == thread).unwrap().1;
    let inside = |address: u64, start: *const u8, size: usize| {
        (start as u64..start as u64 + size as u64).contains(&address)
    };
    let (m, r) = (of(waits).unwrap(), of(reads).unwrap());
    assert_eq!((m.kind, m.owner), (LockKind::RustMutex, Owner::Unknown));
    assert!(inside(m.address, std::ptr::from_ref(mutex).cast(), size_of::<Mutex<u64>>()));
    assert_eq!((r.kind, r.owner), (LockKind::RustReadWrite, Owner::Unknown));
    assert!(inside(r.address, std::ptr::from_ref(lock).cast(), size_of::<RwLock<u64>>()));
    let w = of(writes).unwrap();
    assert_eq!((w.kind, w.owner), (LockKind::RustReadWrite, Owner::Unknown));
    assert!(inside(w.address, std::ptr::from_ref(read).cast(), size_of::<RwLock<u64>>()));
    assert_eq!(of(idle), None);
    assert_eq!(of(timed), None, "who sets a time waits for no lock, whatever the count is");
}

#[cfg(target_env = "gnu")]
#[test]
fn three_threads_that_wait_in_a_ring_are_a_deadlock_and_one_behind_them_leads_there() {
    if waits_are_untold() {
        return;
    }
    let (_turn, _) = turn();
    let locks_of_ring = [(); 3].map(|()| mutex(None));
    let barrier = Arc::new(std::sync::Barrier::new(4));
    let (send, receive) = mpsc::channel();
    for index in 0..3 {
        let (barrier, send) = (barrier.clone(), send.clone());
        std::thread::spawn(move || {
            lock(locks_of_ring[index]);
            send.send((index, current())).unwrap();
            barrier.wait();
            lock(locks_of_ring[(index + 1) % 3]);
        });
    }
    let mut ring = [ThreadId(0); 3];
    for (index, thread) in receive.iter().take(3) {
        ring[index] = thread;
    }
    barrier.wait();
    let behind = blocked(move || lock(locks_of_ring[1]));
    let itself = mutex(None);
    let alone = blocked(move || {
        lock(itself);
        lock(itself);
    });
    let in_ring = |thread| match chain(thread).end {
        ChainEnd::Ring { threads, .. } => Some(threads),
        ChainEnd::Thread(_) => None,
    };
    let begun = std::time::Instant::now();
    while ring.iter().any(|thread| in_ring(*thread) != Some(3)) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", ring.map(chain));
    }
    assert_eq!(chain(behind), Chain { waits: 1, end: ChainEnd::Ring { thread: ring[1], threads: 3 } });
    assert_eq!(chain(alone), Chain { waits: 0, end: ChainEnd::Ring { thread: alone, threads: 1 } });
}

fn chain(thread: ThreadId) -> Chain {
    let found = locks(Purpose::OneThread);
    Chain::follow(thread, |thread| {
        found.iter().find(|(id, _)| *id == thread).and_then(|(_, lock)| lock.as_ref()?.holder())
    })
}
