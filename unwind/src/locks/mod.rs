//! Which lock a thread waits for, and who holds it: from the system call that it waits in and the lock's own words.
//!
//! A lock does not say what it is. Its shape in memory does, together with the way in which it is waited for; each shape
//! has several words that must agree, the owner's among them, which must be the id of a thread. What does not agree is a
//! lock whose owner is unknown, never a guess.

mod chain;
mod futex;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(target_vendor = "apple")]
mod mach;
mod ulock;
mod words;

pub use chain::{Chain, ChainEnd};
pub use futex::{FutexWait, lock_of_futex};
pub use ulock::{UserWait, lock_of_wait};

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use linux::{agrees, learn, learn_in, learn_layout};
#[cfg(target_vendor = "apple")]
pub(crate) use mach::{agrees, learn};

use crate::threads::ThreadId;

/// What kind of lock it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LockKind {
    /// A pthread mutex.
    Mutex = 1,
    /// A pthread mutex that is told of its owner's death.
    RobustMutex = 2,
    /// A pthread mutex whose owner inherits the priority of who waits.
    PriorityMutex = 3,
    /// A pthread read-write lock.
    ReadWrite = 4,
    /// The end of a thread, which `pthread_join` waits for. It counts as held by that thread.
    ThreadEnd = 5,
    /// The lock of a `FILE`.
    Stdio = 6,
    /// A mutex of Rust's standard library.
    RustMutex = 7,
    /// A read-write lock of Rust's standard library.
    RustReadWrite = 8,
    /// A lock whose shape is not known, such as the allocator's.
    Other = 9,
    /// Apple's `os_unfair_lock`, or a pthread mutex made of one.
    Unfair = 10,
}

impl LockKind {
    const ALL: [Self; 10] = [
        Self::Mutex,
        Self::RobustMutex,
        Self::PriorityMutex,
        Self::ReadWrite,
        Self::ThreadEnd,
        Self::Stdio,
        Self::RustMutex,
        Self::RustReadWrite,
        Self::Other,
        Self::Unfair,
    ];

    /// The kind of that number in a report.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }

    /// What it is called, as in "waits for a mutex".
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::RobustMutex => "robust mutex",
            Self::PriorityMutex => "priority-inheritance mutex",
            Self::ReadWrite => "read-write lock",
            Self::ThreadEnd => "thread's end",
            Self::Stdio => "stdio lock",
            Self::RustMutex => "Rust mutex",
            Self::RustReadWrite => "Rust read-write lock",
            Self::Other => "lock",
            Self::Unfair => "unfair lock",
        }
    }
}

/// Who holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The lock does not say.
    Unknown,
    /// A thread of this process.
    Thread(ThreadId),
    /// A thread that is no longer there: nobody will give the lock back.
    Ended(ThreadId),
    /// So many readers, whom the lock does not name.
    Readers(u32),
}

/// A lock that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockWait {
    /// What it is.
    pub kind: LockKind,
    /// Where it is: the address that the program knows it by.
    pub address: u64,
    /// Who holds it.
    pub owner: Owner,
}

impl LockWait {
    /// The thread that has to act before the wait can end.
    pub const fn holder(&self) -> Option<ThreadId> {
        match self.owner {
            Owner::Thread(thread) => Some(thread),
            _ => None,
        }
    }
}
