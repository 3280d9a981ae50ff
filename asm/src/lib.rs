//! The few routines of freezeframe that must be assembly: they need registers as they are, or an exact instruction
//! sequence. One source file an architecture, the same symbols in each.
//!
//! Everything here is signal-safe: no stack beyond a few words, no memory but the caller's, no calls but those of an entry
//! that the caller names.
#![no_std]

/// How many 64-bit words [`capture_registers`] writes on this architecture.
#[cfg(target_arch = "x86_64")]
pub const REGISTER_WORDS: usize = 18;
/// How many 64-bit words [`capture_registers`] writes on this architecture.
#[cfg(target_arch = "aarch64")]
pub const REGISTER_WORDS: usize = 34;

mod routines {
    unsafe extern "C" {
        pub(super) fn freezeframe_capture_registers(out: *mut u64);
        pub(super) fn freezeframe_call_on_stack(
            stack_top: usize,
            entry: extern "C" fn(usize),
            argument: usize,
            landing: *mut usize,
        );
        pub(super) fn freezeframe_land(landing: usize) -> !;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        pub(super) fn freezeframe_signal_return();
        #[cfg(any(target_os = "linux", target_os = "android"))]
        pub(super) fn freezeframe_clone(
            flags: usize,
            stack_top: usize,
            entry: extern "C" fn(usize) -> i32,
            argument: usize,
        ) -> isize;
    }
}

/// Stores the calling thread's registers as they are right after this call: the program counter is the return address
/// of the call, the stack pointer the caller's.
///
/// Words, on x86_64: rax rdx rcx rbx rsi rdi rbp rsp r8–r15 (DWARF order), rip, rflags. On arm64: x0–x30, sp, pc,
/// pstate (condition flags only). Registers that a callee may change hold whatever the call sequence left there.
///
/// `#[inline(always)]`, so that the registers are those of the function which asks.
///
/// # Signal safety
/// Safe: writes `out` and nothing else.
#[inline(always)]
pub fn capture_registers(out: &mut [u64; REGISTER_WORDS]) {
    // SAFETY: the routine writes exactly REGISTER_WORDS words to `out` and keeps the C calling convention.
    unsafe { routines::freezeframe_capture_registers(out.as_mut_ptr()) }
}

/// Calls `entry(argument)` on the stack that ends at `stack_top`, and comes back when that returns, or when [`land`] is
/// called with what was stored in `landing` before.
///
/// # Safety
/// The stack is nobody else's meanwhile, and large enough.
///
/// # Signal safety
/// Safe.
pub unsafe fn call_on_stack(
    stack_top: usize,
    entry: extern "C" fn(usize),
    argument: usize,
    landing: &core::sync::atomic::AtomicUsize,
) {
    // SAFETY: as the caller promises; the routine keeps the C calling convention.
    unsafe { routines::freezeframe_call_on_stack(stack_top, entry, argument, landing.as_ptr()) }
}

/// Ends a call by [`call_on_stack`] from wherever this thread is.
///
/// # Safety
/// `landing` is of a call of this thread's that has not come back, and none of the frames in between has anything to
/// clean up.
///
/// # Signal safety
/// Safe.
pub unsafe fn land(landing: usize) -> ! {
    // SAFETY: as the caller promises.
    unsafe { routines::freezeframe_land(landing) }
}

/// The address of the `rt_sigreturn` trampoline, for `sa_restorer` of a raw `rt_sigaction`.
///
/// # Signal safety
/// Safe: an address constant.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn signal_return() -> usize {
    routines::freezeframe_signal_return as *const () as usize
}

/// Makes a new task by `clone`, which begins in `entry(argument)` on the stack that ends at `stack_top` and ends with what
/// that returns as its exit status. Returns its id, or a negative error number.
///
/// # Safety
/// The stack must be the new task's alone and large enough. `flags` must not ask the kernel to read or write memory
/// (`CLONE_SETTLS`, `CLONE_PARENT_SETTID` and their like). With `CLONE_VM`, `entry` runs beside the program in the same
/// memory, with the caller's thread pointer: it must not touch thread-local storage, `errno` included.
///
/// # Signal safety
/// Safe.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub unsafe fn clone_task(
    flags: usize,
    stack_top: usize,
    entry: extern "C" fn(usize) -> i32,
    argument: usize,
) -> isize {
    // SAFETY: as the caller promises.
    unsafe { routines::freezeframe_clone(flags, stack_top, entry, argument) }
}

#[cfg(test)]
mod tests;
