//! Captures by hand, one of them as it should be, each other with one mistake that Mach forgives until it does not.

use core::ffi::c_void;
use core::ptr::{null_mut, read_volatile, slice_from_raw_parts};

/// What is done wrong. The numbers are the model's, too.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Mistake {
    KeepsRight = 1,
    KeepsArray = 2,
    DoesNotResume = 3,
    ResumesTwice = 4,
    ReleasesRightWhileHeld = 5,
    FreesArrayWhileHeld = 6,
    AsksLoaderWhileHeld = 7,
    AsksForFactsWhileHeld = 8,
    SuspendsItself = 9,
    ReadsItself = 10,
    ReadsRunningThread = 11,
    ReadsStackDirectly = 12,
    CopiesIntoForeignMemory = 13,
    CopiesStackOfRunningThread = 14,
    UsesReleasedRight = 15,
    FreesTwice = 16,
    Panics = 17,
    OverflowsStack = 18,
    ForgetsResumeOnError = 19,
    WritesCode = 20,
    LeavesOneHeld = 21,
    CallsOnAnotherStack = 22,
    NeverEnds = 23,
    AsksForUnknownFacts = 24,
    Traps = 25,
}

#[repr(C)]
#[derive(Default)]
struct LoaderAnswer {
    words: [usize; 4],
}

#[allow(non_upper_case_globals)]
unsafe extern "C" {
    static mach_task_self_: u32;
    fn mach_thread_self() -> u32;
    fn task_threads(task: u32, threads: *mut *mut u32, count: *mut u32) -> i32;
    fn thread_suspend(thread: u32) -> i32;
    fn thread_resume(thread: u32) -> i32;
    fn thread_get_state(thread: u32, flavor: i32, state: *mut u32, count: *mut u32) -> i32;
    fn thread_info(thread: u32, flavor: i32, info: *mut i32, count: *mut u32) -> i32;
    fn vm_read_overwrite(task: u32, address: u64, size: u64, data: u64, copied: *mut u64) -> i32;
    fn mach_port_deallocate(task: u32, name: u32) -> i32;
    fn vm_deallocate(task: u32, address: u64, size: u64) -> i32;
    fn dladdr(address: *const c_void, answer: *mut LoaderAnswer) -> i32;
    fn mischief_call_on(stack: *mut u128, function: unsafe extern "C" fn() -> u32) -> u32;
}

// Calls a function on another stack.
#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    "_mischief_call_on:",
    "stp x29, x30, [sp, #-16]!",
    "mov x29, sp",
    "mov sp, x0",
    "blr x1",
    "mov sp, x29",
    "ldp x29, x30, [sp], #16",
    "ret",
);
#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    "_mischief_call_on:",
    "push rbp",
    "mov rbp, rsp",
    "mov rsp, rdi",
    "call rsi",
    "mov rsp, rbp",
    "pop rbp",
    "ret",
);

#[cfg(target_arch = "aarch64")]
const FLAVOR: i32 = 6;
#[cfg(target_arch = "x86_64")]
const FLAVOR: i32 = 4;
#[cfg(target_arch = "aarch64")]
const STACK_POINTER: usize = 31;
#[cfg(target_arch = "x86_64")]
const STACK_POINTER: usize = 7;
const STATE_WORDS: usize = 68;
const STACK_BYTES: usize = 64;

/// Captures all threads but the calling one, and returns how many. `mistake` is a [`Mistake`], or zero.
///
/// # Safety
/// For a model kernel: with some mistakes it is undefined what happens elsewhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mischief_capture(mistake: u32) -> i32 {
    let does = |other: Mistake| mistake == other as u32;
    if does(Mistake::Panics) {
        panic!("as asked");
    }
    if does(Mistake::OverflowsStack) {
        return overflow(mistake);
    }
    if does(Mistake::Traps) {
        // SAFETY: does not come back.
        unsafe {
            #[cfg(target_arch = "aarch64")]
            core::arch::asm!("brk #1", options(noreturn));
            #[cfg(target_arch = "x86_64")]
            core::arch::asm!("ud2", options(noreturn));
        }
    }
    if does(Mistake::NeverEnds) {
        loop {
            core::hint::spin_loop();
        }
    }
    if does(Mistake::CallsOnAnotherStack) {
        static mut STACK: [u128; 64] = [0; 64];
        // SAFETY: the function called needs no more than that.
        unsafe { mischief_call_on((&raw mut STACK).cast::<u128>().add(64), mach_thread_self) };
    }
    if does(Mistake::WritesCode) {
        // SAFETY: is what this is about.
        unsafe { core::ptr::write_volatile(mischief_capture as *mut u8, 0) };
    }
    // SAFETY: the kernel's calls as its headers declare them.
    unsafe {
        let task = mach_task_self_;
        let (mut array, mut count) = (null_mut(), 0);
        if task_threads(task, &raw mut array, &raw mut count) != 0 {
            return -1;
        }
        let me = mach_thread_self();
        let threads = &*slice_from_raw_parts(array, count as usize);
        let mut captured = 0;
        for thread in threads {
            if *thread == me && !does(Mistake::SuspendsItself) && !does(Mistake::ReadsItself) {
                continue;
            }
            captured += i32::from(capture(*thread, *thread == me, mistake));
        }
        if does(Mistake::AsksForUnknownFacts) {
            let mut room = [0i32; 64];
            thread_info(me, 99, (&raw mut room).cast(), &mut 64);
        }
        for thread in threads.iter().skip(usize::from(does(Mistake::KeepsRight))) {
            mach_port_deallocate(task, *thread);
        }
        mach_port_deallocate(task, me);
        let (main, raw) = (threads[0], threads[1]);
        if does(Mistake::UsesReleasedRight) {
            thread_suspend(raw);
        }
        let size = u64::from(count) * 4;
        if !does(Mistake::KeepsArray) && !does(Mistake::FreesArrayWhileHeld) {
            vm_deallocate(task, array as u64, size);
        }
        if does(Mistake::FreesTwice) {
            vm_deallocate(task, array as u64, size);
        }
        if does(Mistake::LeavesOneHeld) {
            thread_suspend(main);
        }
        captured
    }
}

/// # Safety
/// `thread` is a thread's port.
unsafe fn capture(thread: u32, itself: bool, mistake: u32) -> bool {
    let does = |other: Mistake| mistake == other as u32;
    let mut state = [0u64; STATE_WORDS / 2];
    let mut words = if FLAVOR == 6 { 68 } else { 42 };
    let mut stack = [0u8; STACK_BYTES];
    let mut copied = 0;
    // SAFETY: the kernel's calls as its headers declare them, with room for what they store.
    unsafe {
        let task = mach_task_self_;
        let held = !does(Mistake::ReadsRunningThread) && !(itself && does(Mistake::ReadsItself));
        if held && thread_suspend(thread) != 0 {
            return false;
        }
        let read = thread_get_state(thread, FLAVOR, (&raw mut state).cast(), &raw mut words) == 0;
        if !read && does(Mistake::ForgetsResumeOnError) {
            return false;
        }
        let sp = state[STACK_POINTER];
        if does(Mistake::ReadsStackDirectly) {
            read_volatile(sp as *const u64);
        }
        let into = if does(Mistake::CopiesIntoForeignMemory) { sp } else { (&raw mut stack) as u64 };
        let copy = |copied: &mut u64| vm_read_overwrite(task, sp, STACK_BYTES as u64, into, copied);
        if read && !does(Mistake::CopiesStackOfRunningThread) {
            copy(&mut copied);
        }
        if does(Mistake::ReleasesRightWhileHeld) {
            mach_port_deallocate(task, thread);
        }
        if does(Mistake::FreesArrayWhileHeld) {
            vm_deallocate(task, (&raw const stack) as u64, 4);
        }
        if does(Mistake::AsksLoaderWhileHeld) {
            dladdr(capture as *const c_void, &mut LoaderAnswer::default());
        }
        if does(Mistake::AsksForFactsWhileHeld) {
            thread_info(thread, 3, (&raw mut state).cast(), &mut 10);
        }
        if held && !does(Mistake::DoesNotResume) {
            thread_resume(thread);
        }
        if does(Mistake::ResumesTwice) {
            thread_resume(thread);
        }
        if read && does(Mistake::CopiesStackOfRunningThread) {
            copy(&mut copied);
        }
        read && copied == STACK_BYTES as u64
    }
}

#[inline(never)]
fn overflow(depth: u32) -> i32 {
    if depth == u32::MAX {
        return 0;
    }
    let mut room = [depth; 1024];
    let room = core::hint::black_box(&mut room);
    overflow(room[7].wrapping_add(1)).wrapping_add(room[9] as i32)
}
