//! The lock of a thread of this task that stood in a system call.

use super::{LockWait, UserWait, lock_of_wait};
use crate::memory::{Memory, ProcessMemory};
use crate::snapshot::ThreadCapture;
use crate::threads::{self, ThreadId};
use freezeframe_arch::Registers;

/// Finds the lock that a thread waited for while it was held. It was let go: so the words are looked at twice.
///
/// # Signal safety
/// Safe: three reads of memory; for some mutexes a `thread_info` a thread.
pub(crate) fn learn(
    memory: &mut ProcessMemory,
    thread: &ThreadCapture,
    threads: &[ThreadCapture],
) -> Option<LockWait> {
    let wait = user_wait(memory, thread.registers.as_ref()?)?;
    let all = threads.iter().map(|other| other.thread);
    // The kernel is never asked about a name from a lock's word: it may be that of any port, whose owner would be asked.
    let is_thread = |name: ThreadId| all.clone().any(|thread| thread == name);
    let thread_of = |id: u64| all.clone().find(|thread| threads::system_wide_id(*thread) == Some(id));
    let mut lock = || lock_of_wait(memory, wait, &is_thread, &thread_of);
    let first = lock()?;
    (lock() == Some(first)).then_some(first)
}

/// Whether a thread was, when it was captured, in the wait that its lock is from: these are its own registers.
pub(crate) const fn agrees(_: &ThreadCapture) -> bool {
    true
}

/// The call that the instruction before the program counter makes: its number and arguments are still in their registers.
fn user_wait(memory: &mut ProcessMemory, registers: &Registers) -> Option<UserWait> {
    const SVC_0X80: [u8; 4] = [0x01, 0x10, 0x00, 0xd4];
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    /// The class of BSD's calls (`SYSCALL_CLASS_UNIX`).
    const UNIX: u64 = 2 << 24;
    const NUMBER: u64 = 0xff_ffff;
    match registers {
        Registers::Arm64(r) => {
            let [a, b, c, d, ..] = r.x;
            let call = u32::try_from(*r.x.get(16)?).ok()?;
            is_before(memory, &SVC_0X80, r.pc).then_some(UserWait { call, arguments: [a, b, c, d] })
        }
        Registers::X86_64(r) => {
            let call = (r.rax & !NUMBER == UNIX).then_some((r.rax & NUMBER) as u32)?;
            let arguments = [r.rdi, r.rsi, r.rdx, r.r10];
            is_before(memory, &SYSCALL, r.rip).then_some(UserWait { call, arguments })
        }
    }
}

fn is_before<const N: usize>(memory: &mut ProcessMemory, code: &[u8; N], pc: u64) -> bool {
    let mut before = [0; N];
    memory.read(pc.wrapping_sub(N as u64), &mut before) == N && before == *code
}
