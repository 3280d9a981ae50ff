//! The lock of a thread of this process that waits in a system call.

use super::{FutexWait, LockWait, lock_of_futex};
use crate::memory::{Memory, ProcessMemory};
use crate::process::ProcessId;
use crate::snapshot::ThreadCapture;
use crate::threads::{self, SystemCall};
use core::sync::atomic::{AtomicU64, Ordering};
use freezeframe_arch::Registers;

/// Finds the lock that a thread waits for. It is not held: so the wait is looked at again, and the lock's words with it.
///
/// # Signal safety
/// Safe: two reads of memory, and one of `/proc`.
pub(crate) fn learn(
    memory: &mut ProcessMemory,
    thread: &ThreadCapture,
    _threads: &[ThreadCapture],
) -> Option<LockWait> {
    learn_in(ProcessId::Own, memory, thread)
}

/// The same of a thread of that process, whose memory `memory` is. A C library of another version than ours may lay out its
/// thread control blocks differently, which only a `FILE`'s lock needs: an id that is none of a thread is not believed.
pub(crate) fn learn_in(
    process: ProcessId,
    memory: &mut ProcessMemory,
    thread: &ThreadCapture,
) -> Option<LockWait> {
    let is_thread = |thread| threads::is_alive_in(process, thread);
    let wait = futex_wait(thread.facts.system_call?)?;
    let mut lock = || lock_of_futex(memory, wait, &is_thread, tid_offset());
    let first = lock()?;
    let waits_still = threads::system_call(process, thread.thread).and_then(futex_wait) == Some(wait);
    (waits_still && lock() == Some(first)).then_some(first)
}

/// Whether a thread was, when it was captured, in the wait that its lock is from. Only x86_64 keeps an argument where that
/// can be seen, in each way of reading a thread.
pub(crate) fn agrees(thread: &ThreadCapture) -> bool {
    match (thread.registers, thread.facts.system_call.and_then(futex_wait)) {
        (Some(Registers::X86_64(registers)), Some(wait)) => registers.rdi == wait.word,
        _ => true,
    }
}

/// A call that was interrupted and goes on is another one, with the same arguments.
fn futex_wait(call: SystemCall) -> Option<FutexWait> {
    let [word, operation, expected, timeout, ..] = call.arguments;
    let number = i64::from(call.number);
    let is_futex = number == libc::SYS_futex || number == libc::SYS_restart_syscall;
    is_futex.then_some(FutexWait { word, operation, expected, timeout })
}

/// Where glibc's thread control block has the thread's id, plus one; zero while that is not known.
static TID_OFFSET: AtomicU64 = AtomicU64::new(0);

fn tid_offset() -> Option<u64> {
    TID_OFFSET.load(Ordering::Relaxed).checked_sub(1)
}

/// Learns what this C library's thread control blocks look like, from the calling thread's own.
pub(crate) fn learn_layout() {
    /// Since 2.4 (x86_64) and 2.17 (arm64).
    const OFFSET: u64 = if cfg!(target_arch = "x86_64") { 720 } else { 208 };
    // SAFETY: it has no conditions.
    let block = unsafe { libc::pthread_self() } as u64;
    let id = ProcessMemory::new().read_u64(block.wrapping_add(OFFSET)).map(|words| words as u32 as i32);
    if id == Some(threads::current().0) {
        TID_OFFSET.store(OFFSET.wrapping_add(1), Ordering::Relaxed);
    }
}
