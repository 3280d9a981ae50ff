//! The locks of Apple's systems: `os_unfair_lock`, and the pthread mutexes that are made of one or wait by `psynch_…`.
//!
//! The word of an `os_unfair_lock` is the name of its owner's thread port, whose two low bits serve as flags; in a port's
//! name these are always set (XNU: `sys_ulock.c`, `ulock_owner_value_to_port_name`). Numbers of calls: `syscalls.master`.

use super::words::Words;
use super::{LockKind, LockWait, Owner};
use crate::memory::Memory;
use crate::threads::ThreadId;

/// A BSD system call that a thread waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserWait {
    /// Its number.
    pub call: u32,
    /// Its first four arguments.
    pub arguments: [u64; 4],
}

const PSYNCH_MUTEXWAIT: u32 = 301;
const PSYNCH_RW_RDLOCK: u32 = 306;
const PSYNCH_RW_WRLOCK: u32 = 307;
const ULOCK_WAIT: u32 = 515;
const ULOCK_WAIT2: u32 = 544;

/// The lock that is waited for, if it is one. `is_thread` says whether a name is one of this task's threads' ports;
/// `thread_of` finds the thread with a system-wide id.
///
/// # Signal safety
/// Safe if `memory` is.
pub fn lock_of_wait<M: Memory>(
    memory: &mut M,
    wait: UserWait,
    is_thread: &dyn Fn(ThreadId) -> bool,
    thread_of: &dyn Fn(u64) -> Option<ThreadId>,
) -> Option<LockWait> {
    const OPERATION: u64 = 0xff;
    const UNFAIR_LOCK: u64 = 2;
    const FLAGS: u32 = 3;
    let [first, second, _, fourth] = wait.arguments;
    match wait.call {
        ULOCK_WAIT | ULOCK_WAIT2 if first & OPERATION == UNFAIR_LOCK => {
            let word = Words::around(memory, second)?.u32(second)?;
            let owner = match ThreadId((word | FLAGS) as i32) {
                _ if word == 0 => Owner::Unknown,
                thread if is_thread(thread) => Owner::Thread(thread),
                thread => Owner::Ended(thread),
            };
            Some(LockWait { kind: LockKind::Unfair, address: second, owner })
        }
        // The fourth argument is the owner's system-wide id, as the waiter has found it.
        PSYNCH_MUTEXWAIT => {
            let owner = thread_of(fourth).map_or(Owner::Unknown, Owner::Thread);
            Some(LockWait { kind: LockKind::Mutex, address: first, owner })
        }
        PSYNCH_RW_RDLOCK | PSYNCH_RW_WRLOCK => {
            Some(LockWait { kind: LockKind::ReadWrite, address: first, owner: Owner::Unknown })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::SliceMemory;

    fn lock(word: u32, wait: UserWait) -> Option<LockWait> {
        let bytes = word.to_le_bytes();
        let is_thread = |thread: ThreadId| thread == ThreadId(0x1503);
        let thread_of = |id: u64| (id == 4711).then_some(ThreadId(0x1503));
        lock_of_wait(&mut SliceMemory::new(0x9000, &bytes), wait, &is_thread, &thread_of)
    }

    fn unfair(word: u32) -> Option<Owner> {
        // ULF_NO_ERRNO is a flag beside the operation.
        let wait = UserWait { call: 515, arguments: [0x0100_0002, 0x9000, word.into(), 0] };
        let found = lock(word, wait)?;
        assert_eq!((found.kind, found.address), (LockKind::Unfair, 0x9000));
        Some(found.owner)
    }

    #[test]
    fn the_word_of_an_unfair_lock_is_its_owner_with_or_without_others_waiting() {
        assert_eq!(unfair(0x1503), Some(Owner::Thread(ThreadId(0x1503))));
        assert_eq!(
            unfair(0x1502),
            Some(Owner::Thread(ThreadId(0x1503))),
            "the lowest bit is clear while others wait"
        );
        assert_eq!(unfair(0x1603), Some(Owner::Ended(ThreadId(0x1603))));
        assert_eq!(unfair(0), Some(Owner::Unknown));
    }

    #[test]
    fn a_mutex_that_waits_in_psynch_tells_its_owner_by_a_system_wide_id() {
        let wait = |call, id| UserWait { call, arguments: [0x9000, 0, 0, id] };
        let found = |call, id| lock(0, wait(call, id)).map(|lock| (lock.kind, lock.owner));
        assert_eq!(found(301, 4711), Some((LockKind::Mutex, Owner::Thread(ThreadId(0x1503)))));
        assert_eq!(found(301, 4712), Some((LockKind::Mutex, Owner::Unknown)));
        assert_eq!(found(307, 4711), Some((LockKind::ReadWrite, Owner::Unknown)));
        assert_eq!(found(305, 4711), None, "a condition variable is no lock");
    }

    #[test]
    fn a_wait_for_a_value_is_no_lock() {
        let wait = UserWait { call: 515, arguments: [1, 0x9000, 0x1503, 0] };
        assert_eq!(lock(0x1503, wait), None);
    }
}
