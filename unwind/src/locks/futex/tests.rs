extern crate std;
use super::*;
use crate::memory::SliceMemory;
use std::vec::Vec;

const AT: u64 = 0x5000;
/// The threads of this process. The first has the number of a contended lock, as in a container it can.
const THREADS: [i32; 4] = [2, 4094, 4095, 4096];

/// What is found of a thread that waits without an end, in memory of these words from [`AT`] on.
fn found(words: &[u32], word: u64, operation: u64, expected: u32) -> Option<LockWait> {
    found_until(words, word, operation, expected, 0)
}

fn found_until(words: &[u32], word: u64, operation: u64, expected: u32, timeout: u64) -> Option<LockWait> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let wait = FutexWait { word, operation, expected: expected.into(), timeout };
    let is_thread = |thread: ThreadId| THREADS.contains(&thread.0);
    lock_of_futex(&mut SliceMemory::new(AT, &bytes), wait, &is_thread, Some(16))
}

fn is(kind: LockKind, owner: Owner) -> Option<LockWait> {
    Some(LockWait { kind, address: AT, owner })
}

const HELD: Owner = Owner::Thread(ThreadId(4094));
const PRIVATE_WAIT: u64 = 0x80;
const TIMED_WAIT: u64 = 0x189;

#[test]
fn a_mutex_names_its_owner() {
    let mutex = |lock, owner, users, kind| [lock, 0, owner, users, kind, 0, 0, 0, 0, 0];
    let normal = mutex(2, 4094, 1, 0);
    assert_eq!(found(&normal, AT, PRIVATE_WAIT, 2), is(LockKind::Mutex, HELD));
    assert_eq!(found(&normal, AT, TIMED_WAIT, 2), is(LockKind::Mutex, HELD), "pthread_mutex_timedlock");
    assert_eq!(found(&mutex(2, 4094, 3, 1), AT, PRIVATE_WAIT, 2), is(LockKind::Mutex, HELD), "recursive");
    let ended = is(LockKind::Mutex, Owner::Ended(ThreadId(999)));
    assert_eq!(found(&mutex(2, 999, 1, 0), AT, PRIVATE_WAIT, 2), ended);
    assert_eq!(found(&mutex(2, 999, 1, 0), AT, TIMED_WAIT, 2), ended, "pthread_mutex_timedlock");
    assert_eq!(found_until(&mutex(2, 999, 1, 0), AT, 0x89, 2, 0x7000), ended, "pthread_mutex_clocklock");
    let shared = mutex(2, 4094, 1, 0x80);
    assert_eq!(found(&shared, AT, 0, 2), is(LockKind::Mutex, HELD), "shared by processes");
    let unknown = is(LockKind::Other, Owner::Unknown);
    assert_eq!(found(&shared, AT, PRIVATE_WAIT, 2), unknown, "the shape and the wait disagree");
    assert_eq!(found(&mutex(2, 4094, 0, 0), AT, PRIVATE_WAIT, 2), unknown, "an owned one has a user");
    assert_eq!(found(&mutex(2, 4094, 1, 0x7000), AT, PRIVATE_WAIT, 2), unknown, "no kind of mutex");
    assert_eq!(found(&mutex(0, 0, 0, 0), AT, PRIVATE_WAIT, 2), None, "it is free: the wait is over");
}

#[test]
fn robust_and_inheriting_mutexes_have_their_owner_in_the_word_itself() {
    let robust = [0x8000_0ffe, 1, 4094, 1, 0x90, 0, 0, 0];
    assert_eq!(found(&robust, AT, 0, 0x8000_0ffe), is(LockKind::RobustMutex, HELD));
    let inheriting = [0x8000_0ffe, 1, 4094, 1, 0x20, 0, 0, 0];
    assert_eq!(found(&inheriting, AT, 0x86, 0), is(LockKind::PriorityMutex, HELD));
    assert_eq!(found(&inheriting, AT, 0x8d, 0), is(LockKind::PriorityMutex, HELD), "FUTEX_LOCK_PI2");
    // The kernel marks it, and the next owner takes it over.
    let died = [0xc000_0000, 1, 0, 1, 0x20, 0, 0, 0];
    assert_eq!(found(&died, AT, 0x86, 0), is(LockKind::PriorityMutex, Owner::Unknown));
}

#[test]
fn a_read_write_lock_names_its_writer_or_counts_its_readers() {
    let lock = |readers, phase, writers, writer, shared| {
        [readers, 0, phase, writers, 0, 0, writer, shared, 0, 0, 0, 0, 0, 0, 0, 0]
    };
    let written = lock(11, 3, 3, 4094, 0);
    assert_eq!(found(&written, AT + 8, TIMED_WAIT, 3), is(LockKind::ReadWrite, HELD), "a reader waits");
    assert_eq!(found(&written, AT + 12, TIMED_WAIT, 3), is(LockKind::ReadWrite, HELD), "a writer waits");
    let readers = is(LockKind::ReadWrite, Owner::Readers(1));
    let read = lock(10, 2, 3, 0, 0);
    assert_eq!(found(&read, AT + 8, TIMED_WAIT, 2), readers, "the first writer");
    assert_eq!(found(&read, AT + 12, TIMED_WAIT, 3), readers, "the next one");
    assert_eq!(found(&lock(10, 2, 3, 0, 1), AT + 8, TIMED_WAIT, 2), None, "shared, and the wait is not");
    let ended = is(LockKind::ReadWrite, Owner::Ended(ThreadId(999)));
    let left_behind = lock(11, 3, 3, 999, 0);
    assert_eq!(found(&left_behind, AT + 8, TIMED_WAIT, 3), ended, "a writer that is no thread any more");
    assert_eq!(found(&left_behind, AT + 12, TIMED_WAIT, 3), ended);
    assert_eq!(found(&lock(10, 2, 3, 999, 0), AT + 8, TIMED_WAIT, 2), None, "readers have it: no writer");
    assert_eq!(found(&lock(11, 3, 3, 1 << 23, 0), AT + 8, TIMED_WAIT, 3), None, "no number of a thread's");
}

/// A condition variable's words come before its mutex's, which is free but has a user.
#[test]
fn a_condition_variable_is_no_read_write_lock() {
    let words = [4, 0, 0, 0, 0, 0, 8, 0, 8, 16, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    for expected in [0, 2] {
        let mut words = words;
        words[10] = expected;
        assert_eq!(found(&words, AT + 40, TIMED_WAIT, expected), None);
        words[11] = expected;
        assert_eq!(found(&words, AT + 44, TIMED_WAIT, expected), None);
    }
}

#[test]
fn who_joins_a_thread_waits_for_that_thread() {
    assert_eq!(found(&[4095, 0], AT, 0x109, 4095), is(LockKind::ThreadEnd, Owner::Thread(ThreadId(4095))));
    assert_eq!(found(&[2, 0], AT, 0x109, 2), is(LockKind::ThreadEnd, Owner::Thread(ThreadId(2))));
    assert_eq!(found(&[4095, 0], AT, TIMED_WAIT, 4095), None, "a private word is somebody's counter");
}

#[test]
fn a_stdio_lock_names_its_owner_by_its_thread_control_block() {
    let block = AT + 16;
    // The lock, and behind it the control block, with the id 16 bytes on.
    let words = |count| [2, count, block as u32, 0, 0, 0, 0, 0, 4094, 0];
    assert_eq!(found(&words(1), AT, PRIVATE_WAIT, 2), is(LockKind::Stdio, HELD));
    assert_eq!(found(&words(0), AT, PRIVATE_WAIT, 2), is(LockKind::Other, Owner::Unknown));
}

#[test]
fn locks_of_the_standard_library_do_not_say_whose_they_are() {
    let mutex = [2, 0, 7, 7, 7, 7];
    assert_eq!(found(&mutex, AT, 0x89, 2), is(LockKind::RustMutex, Owner::Unknown));
    let read = 1 << 30 | 0x3fff_ffff;
    assert_eq!(found(&[read, 0], AT, 0x89, read), is(LockKind::RustReadWrite, Owner::Unknown));
    assert_eq!(found(&[u32::MAX, 0], AT, 0x89, u32::MAX), None, "a parked thread");
    assert_eq!(found(&[1, 0], AT, 0x89, 1), None, "a condition variable's count");
    let timed = found_until(&mutex, AT, 0x89, 2, 0x7000);
    assert_eq!(timed, None, "a time is set by who waits for a condition");
    assert_eq!(found_until(&[read, 0], AT, 0x89, read, 0x7000), None);
}

#[test]
fn a_writer_waits_at_the_counter_behind_the_state() {
    let written = |state: u32, counter, poisoned| found(&[state, counter, poisoned], AT + 4, 0x89, counter);
    let lock = is(LockKind::RustReadWrite, Owner::Unknown);
    assert_eq!(written(1 << 31 | 1, 0, 0), lock, "a reader has it");
    assert_eq!(written(1 << 31 | 0x3fff_ffff, 2, 1), lock, "a writer has it; the counter is no mutex");
    assert_eq!(written(3 << 30 | 5, 7, 0x7700), lock, "readers wait, too");
    let mutex = Some(LockWait { address: AT + 4, kind: LockKind::RustMutex, owner: Owner::Unknown });
    assert_eq!(written(1, 2, 0), mutex, "nobody says that writers wait");
    assert_eq!(written(1 << 31, 0, 0), None, "nobody has it");
    assert_eq!(written(u32::MAX, 0, 0), None, "minus one");
    assert_eq!(written(0x8123_4567, 0, 0), None, "so many readers there are not");
    assert_eq!(written(1 << 31 | 1, 0, 0xfe), None, "neither poisoned nor not");
}

#[test]
fn what_cannot_be_read_is_no_lock_and_what_ends_there_is_one_without_a_shape() {
    assert_eq!(found(&[2], AT + 64, PRIVATE_WAIT, 2), None);
    assert_eq!(found(&[2], AT, PRIVATE_WAIT, 2), is(LockKind::Other, Owner::Unknown));
    assert_eq!(found(&[2, 0, 4094, 1], AT, PRIVATE_WAIT, 2), is(LockKind::Other, Owner::Unknown));
}
