//! The locks of Linux, which are all waited for at a futex: glibc's, musl's, and those of Rust's standard library.
//!
//! ```text
//! pthread_mutex_t      0 lock │ 4 count │ 8 owner │ 12 users │ 16 kind         waits at 0
//! pthread_rwlock_t     0 readers │ 4 writers │ 8 phase │ 12 writers' word │ 16 0 │ 20 0 │ 24 writer │ 28 shared
//!                                                                             waits at 8 or 12
//! FILE's lock          0 lock │ 4 count │ 8 owner's thread control block      waits at 0
//! ```
//!
//! Sources: glibc's `struct_mutex.h`, `struct_rwlock.h` and `stdio-lock.h` (unchanged from 2.25 to 2.42), musl's
//! `pthread_impl.h`, and the kernel's `futex(2)`, which defines the words of priority-inheriting and robust ones.

use super::words::Words;
use super::{LockKind, LockWait, Owner};
use crate::memory::Memory;
use crate::threads::ThreadId;

/// A thread's wait at a futex, as the system call's first four arguments have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FutexWait {
    /// The address of the word.
    pub word: u64,
    /// The operation, with its flags.
    pub operation: u64,
    /// What the word was when the wait began.
    pub expected: u64,
    /// Where the time is at which it ends by itself; zero if it does not.
    pub timeout: u64,
}

const COMMAND: u64 = 0x7f;
const PRIVATE: u64 = 0x80;
const WAIT: u64 = 0;
const LOCK_PI: u64 = 6;
const WAIT_BITSET: u64 = 9;
const LOCK_PI2: u64 = 13;

/// Bits of a word that the kernel knows: the owner's id, and that somebody waits.
const OWNER: u32 = 0x3fff_ffff;
const WAITERS: u32 = 0x8000_0000;
/// A lock that is held, and that somebody waits for: glibc's and Rust's.
const CONTENDED: u32 = 2;

impl FutexWait {
    const fn command(&self) -> u64 {
        self.operation & COMMAND
    }

    const fn is_private(&self) -> bool {
        self.operation & PRIVATE != 0
    }
}

/// The lock that is waited for, if it is one. `is_thread` says whether an id is one of this process's threads; `tid_offset` is
/// where in a thread control block of this C library the thread's id lies, if that is known.
///
/// # Signal safety
/// Safe if `memory` is.
pub fn lock_of_futex<M: Memory>(
    memory: &mut M,
    wait: FutexWait,
    is_thread: &dyn Fn(ThreadId) -> bool,
    tid_offset: Option<u64>,
) -> Option<LockWait> {
    let words = Words::around(memory, wait.word)?;
    let now = words.u32(wait.word)?;
    let lock = Lock { words, wait, is_thread };
    match wait.command() {
        LOCK_PI | LOCK_PI2 => Some(lock.at(LockKind::PriorityMutex, lock.owner(now & OWNER))),
        WAIT | WAIT_BITSET => lock.by_shape(memory, now, tid_offset),
        _ => None,
    }
}

struct Lock<'a> {
    words: Words,
    wait: FutexWait,
    is_thread: &'a dyn Fn(ThreadId) -> bool,
}

impl Lock<'_> {
    const fn at(&self, kind: LockKind, owner: Owner) -> LockWait {
        LockWait { kind, address: self.wait.word, owner }
    }

    fn owner(&self, id: u32) -> Owner {
        match ThreadId(id as i32) {
            ThreadId(0) => Owner::Unknown,
            thread if (self.is_thread)(thread) => Owner::Thread(thread),
            thread => Owner::Ended(thread),
        }
    }

    fn is_thread(&self, id: u32) -> bool {
        id != 0 && (self.is_thread)(ThreadId(id as i32))
    }

    fn by_shape<M: Memory>(&self, memory: &mut M, now: u32, tid_offset: Option<u64>) -> Option<LockWait> {
        let expected = self.wait.expected as u32;
        // Given up meanwhile: the wait is as good as over.
        if now != expected {
            return None;
        }
        if expected & WAITERS != 0 && self.is_thread(expected & OWNER) {
            return Some(self.at(LockKind::RobustMutex, self.owner(expected & OWNER)));
        }
        let mutex =
            self.mutex().filter(|_| expected == CONTENDED).map(|owner| self.at(LockKind::Mutex, owner));
        if let Some(mutex) = mutex.filter(|mutex| mutex.holder().is_some()) {
            return Some(mutex);
        }
        if let Some((address, owner)) = self.read_write() {
            return Some(LockWait { kind: LockKind::ReadWrite, address, owner });
        }
        // The kernel wakes who waits for a thread's end, and takes the word for one that processes share.
        if !self.wait.is_private() && self.is_thread(expected) {
            return Some(self.at(LockKind::ThreadEnd, self.owner(expected)));
        }
        if self.is_rusts() {
            return self.rust(expected);
        }
        let is_plain = expected == CONTENDED && self.wait.command() == WAIT;
        let stdio = if is_plain { self.stdio(memory, tid_offset) } else { None };
        // A mutex whose owner has ended is the last but one, since no thread confirms it.
        let unknown = is_plain.then_some(self.at(LockKind::Other, Owner::Unknown));
        stdio.map(|owner| self.at(LockKind::Stdio, owner)).or(mutex).or(unknown)
    }

    fn word(&self, offset: i64) -> Option<u32> {
        self.words.u32(self.wait.word.wrapping_add_signed(offset))
    }

    /// A mutex here, and its owner.
    fn mutex(&self) -> Option<Owner> {
        const TYPE: u32 = 3;
        const SHARED: u32 = 0x80;
        /// Whether a lock may be elided has been tried.
        const ELISION: u32 = 0x300;
        let (owner, users, kind) = (self.word(8)?, self.word(12)?, self.word(16)?);
        let plausible = kind & !(TYPE | SHARED | ELISION) == 0
            && (kind & SHARED == 0) == self.wait.is_private()
            && (1..=MOST_USERS).contains(&users)
            && (1..=MOST_IDS).contains(&owner);
        plausible.then(|| self.owner(owner))
    }

    /// The read-write lock that this is a word of, and who holds it.
    fn read_write(&self) -> Option<(u64, Owner)> {
        /// Bits of the first word beside the count of readers.
        const READERS_SHIFT: u32 = 3;
        const LOCKED: u32 = 1;
        const USED: u32 = 2;
        /// Bits of the first word: writers have it, and one of them has locked it.
        const WRITTEN: u32 = 1 | 2;
        let is_word = |word: u32| word <= LOCKED | USED;
        for before in [8, 12] {
            let field = |offset: i64| self.word(offset - before);
            let (Some(readers), Some(phase), Some(writers), Some(writer), Some(shared)) =
                (field(0), field(8), field(12), field(24), field(28))
            else {
                continue;
            };
            // Padding, and a byte that only elision sets.
            let is_empty = [16, 20, 32, 36, 40, 44].into_iter().all(|offset| field(offset) == Some(0));
            let is_shared = u32::from(!self.wait.is_private());
            if !is_empty || shared != is_shared || !is_word(phase) || !is_word(writers) {
                continue;
            }
            // One of the two says that it is waited at.
            if self.wait.expected as u32 & USED == 0 {
                continue;
            }
            let count = readers >> READERS_SHIFT;
            let owner = match (self.is_thread(writer), writer) {
                (true, _) => Owner::Thread(ThreadId(writer as i32)),
                (false, 0) if (1..=MOST_USERS).contains(&count) && phase & LOCKED == 0 => {
                    Owner::Readers(count)
                }
                (false, ended)
                    if readers & WRITTEN == WRITTEN
                        && phase & LOCKED != 0
                        && (1..=MOST_IDS).contains(&ended) =>
                {
                    self.owner(ended)
                }
                _ => continue,
            };
            return Some((self.wait.word.wrapping_sub(before as u64), owner));
        }
        None
    }

    /// The owner of a `FILE`'s lock, which is told by the address of its thread control block.
    fn stdio<M: Memory>(&self, memory: &mut M, tid_offset: Option<u64>) -> Option<Owner> {
        let (count, block) = (self.word(4)?, self.words.u64(self.wait.word.wrapping_add(8))?);
        let id = memory.read_u64(block.checked_add(tid_offset?)?)? as u32;
        ((1..=MOST_USERS).contains(&count) && self.is_thread(id)).then(|| self.owner(id))
    }

    /// The standard library of Rust waits for everything by `FUTEX_WAIT_BITSET` with the monotonic clock, and sets no time to a
    /// wait for a lock.
    const fn is_rusts(&self) -> bool {
        self.wait.operation == WAIT_BITSET | PRIVATE && self.wait.timeout == 0
    }

    fn rust(&self, expected: u32) -> Option<LockWait> {
        const PARKED: u32 = u32::MAX;
        if let Some(lock) = self.rust_written() {
            return Some(lock);
        }
        match expected {
            CONTENDED => Some(self.at(LockKind::RustMutex, Owner::Unknown)),
            PARKED => None,
            // A reader leaves a mark in the state that it waits at.
            state if state & READERS_WAITING != 0 => Some(self.at(LockKind::RustReadWrite, Owner::Unknown)),
            _ => None,
        }
    }

    /// A writer leaves a mark in the state, and waits at the word behind it, a counter. Behind that is whether the lock is
    /// poisoned.
    fn rust_written(&self) -> Option<LockWait> {
        let (state, poisoned) = (self.word(-4)?, self.word(4)? & 0xff);
        let holders = state & !(READERS_WAITING | WRITERS_WAITING);
        // All bits are set also in a number that is minus one, which is far more common than a lock on which everybody waits.
        let plausible = state & WRITERS_WAITING != 0
            && state != u32::MAX
            && (holders == WRITE_LOCKED || (1..=MOST_USERS).contains(&holders))
            && poisoned <= 1;
        let address = self.wait.word.wrapping_sub(4);
        plausible.then_some(LockWait { kind: LockKind::RustReadWrite, address, owner: Owner::Unknown })
    }
}

/// The state of a read-write lock of Rust's: how many readers hold it, or this in place of a number; and who waits.
const WRITE_LOCKED: u32 = (1 << 30) - 1;
const READERS_WAITING: u32 = 1 << 30;
const WRITERS_WAITING: u32 = 1 << 31;

/// More than this many threads use no lock at a time. The upper half of an address is more.
const MOST_USERS: u32 = 1 << 12;
/// The kernel's limit to the ids of threads (`PID_MAX_LIMIT`).
const MOST_IDS: u32 = 1 << 22;

#[cfg(test)]
mod tests;
