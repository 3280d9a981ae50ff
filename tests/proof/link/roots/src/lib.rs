//! Every public function of the core, kept by a table. What is reachable from it must need nothing but the listed names.
#![no_std]

use freezeframe_unwind::images::{Image, Range};
use freezeframe_unwind::locks::Chain;
use freezeframe_unwind::memory::{Memory, StackCopy};
use freezeframe_unwind::rule::{Expression, RegisterRule, Row, RuleError};
use freezeframe_unwind::snapshot::{Snapshot, ThreadCapture};
use freezeframe_unwind::threads::ThreadId;
use freezeframe_unwind::walk::Frame;

unsafe extern "C" {
    /// Defined nowhere: whatever can panic cannot be linked.
    safe fn freezeframe_the_core_can_panic() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    freezeframe_the_core_can_panic()
}

/// Addresses of functions.
#[repr(transparent)]
pub struct Roots<const N: usize>([*const (); N]);

// SAFETY: addresses of code, which nobody changes.
unsafe impl<const N: usize> Sync for Roots<N> {}

include!(env!("FREEZEFRAME_ROOTS"));

/// Uses up what [`Image::code`] returns.
pub fn image_code(image: &Image, each: fn(Range)) {
    image.code().for_each(each);
}

/// Follows what a function pointer knows.
pub fn chain_follow(start: ThreadId, waits_for: fn(ThreadId) -> Option<ThreadId>) -> Chain {
    Chain::follow(start, waits_for)
}

/// Evaluates with registers that a function pointer knows.
pub fn expression_evaluate<T: Memory, M: Memory>(
    expression: Expression,
    tables: &mut T,
    memory: &mut M,
    initial: Option<u64>,
    register: fn(u64) -> Option<u64>,
) -> Result<u64, RuleError> {
    expression.evaluate(tables, memory, initial, register)
}

/// Reads from what [`StackCopy::continue_in`] returns, in all ways.
pub fn stack_copy_continued<M: Memory>(
    copy: &mut StackCopy<'_>,
    memory: &mut M,
    out: &mut [u8],
) -> Result<[u64; 2], u64> {
    let mut continued = copy.continue_in(memory);
    let read = continued.read(0, out) as u64;
    let word = continued.read_u64(read).unwrap_or(0);
    let lent = continued.bytes(word).map_or(0, |bytes| bytes.len() as u64);
    continued.read_record(lent)
}

/// Uses up what [`Row::rules`] returns.
pub fn row_rules(row: &Row, each: fn((u16, RegisterRule))) {
    row.rules().for_each(each);
}

/// Asks a function pointer, of both sorts of snapshots.
pub fn snapshot_retain_locks(
    one_by_one: &mut Snapshot<128, 4096>,
    together: &mut Snapshot<128, 4096, 1048576>,
    is_lock: fn(&ThreadCapture, &[Frame]) -> bool,
) {
    one_by_one.retain_locks(is_lock);
    together.retain_locks(is_lock);
}

/// The entry of the object with everything that a capture can call.
#[unsafe(no_mangle)]
pub extern "C" fn freezeframe_capture_roots(visit: extern "C" fn(*const *const (), usize)) {
    visit(CAPTURE.0.as_ptr(), CAPTURE.0.len());
}

/// The entry of the object with what sets up, in addition.
#[unsafe(no_mangle)]
pub extern "C" fn freezeframe_all_roots(visit: extern "C" fn(*const *const (), usize)) {
    freezeframe_capture_roots(visit);
    visit(SETUP.0.as_ptr(), SETUP.0.len());
}
