//! Whether a signal fits on a thread's stack.

use super::{Peek, signal};
use crate::images::Range;
use crate::memory::{Memory, ProcessMemory};
use crate::process::ProcessId;
use crate::threads::ThreadId;

/// Whether a signal for a thread that waits fits on its stack: the kernel would end the process otherwise.
///
/// What can be known: where the stack pointer of a thread is that waits, not of one that runs. What cannot: whether it has
/// an alternate stack, where the signal would be handled. So a thread that waits with little stack left counts as one
/// without, and of a thread that runs it is supposed that it has enough. The main thread's stack grows.
///
/// # Signal safety
/// Safe.
pub(crate) fn has_room_for_signal(thread: ThreadId, main_stack: Range, scratch: &mut [u8]) -> bool {
    let mut memory = ProcessMemory::new();
    let Ok(peek) = Peek::begin(ProcessId::Own, thread, &mut memory) else { return true };
    let sp = peek.registers().0.sp();
    let bytes = signal::stack_bytes();
    main_stack.contains(sp)
        || scratch.get_mut(..bytes).is_none_or(|scratch| {
            // All of it: beneath the page that guards the stack there may be others.
            memory.read(sp.wrapping_sub(bytes as u64), scratch) == bytes
        })
}
