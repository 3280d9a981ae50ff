extern crate std;
use super::*;
use core::arch::asm;

/// Register `n` holds `MARK + n` at the call; no two differ by a mere half.
const MARK: u64 = 0x0123_4567_89ab_cd00;

#[cfg(target_arch = "aarch64")]
#[test]
fn each_word_is_the_register_of_its_place() {
    let mut words = [0; REGISTER_WORDS];
    let out = words.as_mut_ptr();
    let (sp, pc): (u64, u64);
    // SAFETY: the registers that a callee keeps are put back; the others are clobbers of the C convention.
    unsafe {
        asm!(
            "stp x19, x20, [sp, #-96]!",
            "stp x21, x22, [sp, #16]",
            "stp x23, x24, [sp, #32]",
            "stp x25, x26, [sp, #48]",
            "stp x27, x28, [sp, #64]",
            "stp x29, x30, [sp, #80]",
            // Not x18: it belongs to the system on Apple's.
            ".irp n, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,19,20,21,22,23,24,25,26,27,28,29",
            "add x\\n, x1, #\\n",
            ".endr",
            "add x1, x1, #1",
            "cmp x1, x1",
            "bl {capture}",
            "2: mov x1, sp",
            "adr x2, 2b",
            "ldp x21, x22, [sp, #16]",
            "ldp x23, x24, [sp, #32]",
            "ldp x25, x26, [sp, #48]",
            "ldp x27, x28, [sp, #64]",
            "ldp x29, x30, [sp, #80]",
            "ldp x19, x20, [sp], #96",
            capture = sym routines::freezeframe_capture_registers,
            inlateout("x0") out => _, inlateout("x1") MARK => sp, lateout("x2") pc,
            clobber_abi("C"),
        );
    }
    let mut expected: [u64; REGISTER_WORDS] = core::array::from_fn(|n| MARK + n as u64);
    expected[0] = out as u64;
    expected[18] = words[18];
    let zero_and_carry = 0x6000_0000;
    expected[30..].copy_from_slice(&[pc, sp, pc, zero_and_carry]);
    assert_eq!(words, expected);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn each_word_is_the_register_of_its_place() {
    let mut words = [0; REGISTER_WORDS];
    let out = words.as_mut_ptr();
    let (sp, pc): (u64, u64);
    // SAFETY: the registers that a callee keeps are put back; the others are clobbers of the C convention.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "push r12",
            "push r13",
            "push r14",
            "push r15",
            "lea rax, [rsi]",
            "lea rdx, [rsi + 1]",
            "lea rcx, [rsi + 2]",
            "lea rbx, [rsi + 3]",
            "lea rbp, [rsi + 6]",
            ".irp n, 8,9,10,11,12,13,14,15",
            "lea r\\n, [rsi + \\n]",
            ".endr",
            "add rsi, 4",
            "cmp rsi, rsi",
            "call {capture}",
            "2: mov rsi, rsp",
            "lea rdi, [rip + 2b]",
            "pop r15",
            "pop r14",
            "pop r13",
            "pop r12",
            "pop rbp",
            "pop rbx",
            capture = sym routines::freezeframe_capture_registers,
            inlateout("rdi") out => pc, inlateout("rsi") MARK => sp,
            clobber_abi("C"),
        );
    }
    let mut expected: [u64; REGISTER_WORDS] = core::array::from_fn(|n| MARK + n as u64);
    expected[5] = out as u64;
    expected[7] = sp;
    let (arithmetic_flags, zero_and_parity) = (0x8d5, 0x44);
    words[17] &= arithmetic_flags;
    expected[16..].copy_from_slice(&[pc, zero_and_parity]);
    assert_eq!(words, expected);
}

/// A handler that returns through [`signal_return`] resumes the thread where it was.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn a_handler_returns_through_the_trampoline() {
    use core::sync::atomic::{AtomicUsize, Ordering};

    #[repr(C)]
    struct KernelSigaction {
        handler: extern "C" fn(i32),
        flags: u64,
        restorer: usize,
        mask: u64,
    }
    unsafe extern "C" {
        fn syscall(number: i64, ...) -> i64;
        fn raise(signal: i32) -> i32;
    }
    static RETURNS_TO: AtomicUsize = AtomicUsize::new(0);
    #[cfg(target_arch = "aarch64")]
    #[unsafe(naked)]
    extern "C" fn handler(_signal: i32) {
        core::arch::naked_asm!("adrp x9, {to}", "str x30, [x9, :lo12:{to}]", "ret", to = sym RETURNS_TO)
    }
    #[cfg(target_arch = "x86_64")]
    #[unsafe(naked)]
    extern "C" fn handler(_signal: i32) {
        core::arch::naked_asm!("mov rax, [rsp]", "mov [rip + {to}], rax", "ret", to = sym RETURNS_TO)
    }

    #[cfg(target_arch = "aarch64")]
    let rt_sigaction = 134;
    #[cfg(target_arch = "x86_64")]
    let rt_sigaction = 13;
    let (sigurg, sa_restorer, size_of_mask) = (23, 0x0400_0000, 8usize);
    let action = KernelSigaction { handler, flags: sa_restorer, restorer: signal_return(), mask: 0 };
    // SAFETY: the layout is the kernel's; the handler only stores a word.
    let installed = unsafe { syscall(rt_sigaction, sigurg, &raw const action, 0usize, size_of_mask) };
    assert_eq!(installed, 0);
    for _ in 0..3 {
        RETURNS_TO.store(0, Ordering::Relaxed);
        // SAFETY: the signal has the handler installed above.
        assert_eq!(unsafe { raise(sigurg) }, 0);
        assert_eq!(RETURNS_TO.load(Ordering::Relaxed), signal_return());
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn a_cloned_task_runs_on_its_own_stack_in_the_same_memory_and_ends_with_its_status() {
    extern crate std;
    use core::sync::atomic::{AtomicUsize, Ordering};

    unsafe extern "C" {
        fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    }
    const CLONE_VM: usize = 0x100;
    const WALL: i32 = 0x4000_0000;
    static STACK_OF_CLONE: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn entry(argument: usize) -> i32 {
        let here = 0u8;
        STACK_OF_CLONE.store(&raw const here as usize, Ordering::Relaxed);
        argument as i32
    }

    let mut stack = std::vec![0u8; 64 << 10];
    let range = stack.as_mut_ptr_range();
    // SAFETY: the stack is not used otherwise, and outlives the task, which touches nothing else than a static.
    let pid = unsafe { clone_task(CLONE_VM, range.end as usize - 3, entry, 42) };
    if pid == -22 && cfg!(target_arch = "aarch64") {
        std::println!("skipped: qemu-user has no such clone");
        return;
    }
    assert!(pid > 0, "{pid}");
    let mut status = 0;
    // SAFETY: a child of ours, and a word for its status.
    assert_eq!(unsafe { waitpid(pid as i32, &mut status, WALL) }, pid as i32);
    assert_eq!(status, 42 << 8, "it has ended with 42");
    let place = STACK_OF_CLONE.load(Ordering::Relaxed);
    assert!((range.start as usize..range.end as usize).contains(&place));
    // SAFETY: refused before anything is done.
    let refused = unsafe { clone_task(usize::MAX, 0, entry, 0) };
    assert!((-4095..0).contains(&refused), "flags that contradict each other: {refused}");
}

static PLACE: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);
static LANDING: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);
/// One at a time: they share the two above.
fn turn() -> std::sync::MutexGuard<'static, ()> {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Where the callee ran, as an offset into its stack; whatever it left in registers, ours are kept.
fn run_on_a_stack_of_its_own(entry: extern "C" fn(usize)) -> usize {
    use core::sync::atomic::Ordering;
    use std::hint::black_box;

    let _turn = turn();
    let mut stack = std::vec![0u8; 64 << 10];
    let start = stack.as_mut_ptr() as usize;
    // More values than there are registers that a callee may change.
    let kept: [usize; 16] = core::array::from_fn(|n| black_box(n * 0x1111));
    let float = black_box(2.5f64);
    PLACE.store(0, Ordering::Relaxed);
    // SAFETY: the stack is this call's own, and the entries below need little of it.
    unsafe { call_on_stack(start + stack.len() - 3, entry, 42, &LANDING) };
    assert!(kept.iter().enumerate().all(|(n, value)| *value == n * 0x1111) && float == 2.5);
    PLACE.load(Ordering::Relaxed).wrapping_sub(start)
}

#[test]
fn a_call_on_another_stack_comes_back() {
    extern "C" fn entry(argument: usize) {
        let here = 0u8;
        assert_eq!(argument, 42);
        PLACE.store(&raw const here as usize, core::sync::atomic::Ordering::Relaxed);
    }
    assert!((60 << 10..64 << 10).contains(&run_on_a_stack_of_its_own(entry)));
}

#[test]
fn a_call_on_another_stack_can_be_ended_from_anywhere() {
    extern "C" fn entry(argument: usize) {
        let here = 0u8;
        if argument > 0 {
            entry(argument - 1);
            unreachable!("the innermost call does not return");
        }
        PLACE.store(&raw const here as usize, core::sync::atomic::Ordering::Relaxed);
        // SAFETY: stored by the call that this is in; nothing is to be cleaned up.
        unsafe { land(LANDING.load(core::sync::atomic::Ordering::Relaxed)) }
    }
    assert!((1 << 10..63 << 10).contains(&run_on_a_stack_of_its_own(entry)));
}
