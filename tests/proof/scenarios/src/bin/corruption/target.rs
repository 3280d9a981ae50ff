//! A thread on a stack of this program's own, some calls deep, that stays where it is.

use freezeframe_unwind::threads::{ThreadId, current};
use std::hint::black_box;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const BYTES: usize = 256 * 1024;
static RUNS: AtomicBool = AtomicBool::new(false);
static ID: AtomicI32 = AtomicI32::new(0);
/// What the thread calls at the bottom of its stack, if not [`stay`].
static CALLS: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) id: ThreadId,
    pub(crate) stack: (usize, usize),
}

/// Starts it. It waits in the kernel, or runs.
pub(crate) fn start(runs: bool, calls: Option<extern "C" fn()>) -> Target {
    RUNS.store(runs, SeqCst);
    CALLS.store(calls.map_or(0, |function| function as usize), SeqCst);
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: plain data, a stack that stays, and a function of the right type.
    let start = unsafe {
        let stack = libc::mmap(null_mut(), BYTES, protection, flags, -1, 0);
        assert_ne!(stack, libc::MAP_FAILED);
        let (mut thread, mut attributes) = (zeroed(), zeroed());
        assert_eq!(libc::pthread_attr_init(&mut attributes), 0);
        assert_eq!(libc::pthread_attr_setstack(&mut attributes, stack, BYTES), 0);
        assert_eq!(libc::pthread_create(&mut thread, &attributes, begin, null_mut()), 0);
        stack as usize
    };
    while ID.load(SeqCst) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(20));
    Target { id: ThreadId(ID.load(SeqCst)), stack: (start, start + BYTES) }
}

extern "C" fn begin(_: *mut libc::c_void) -> *mut libc::c_void {
    deep(150);
    null_mut()
}

#[inline(never)]
fn deep(depth: u32) {
    let room = black_box([depth; 16]);
    if depth > 0 {
        black_box(deep as fn(u32))(room[3] - 1);
    } else {
        match CALLS.load(SeqCst) {
            0 => stay(),
            // SAFETY: stored by `start`, from such a function.
            function => unsafe { std::mem::transmute::<usize, extern "C" fn()>(function)() },
        }
    }
    black_box(room);
}

/// Stays here for good.
pub(crate) extern "C" fn stay() {
    ID.store(current().0, SeqCst);
    if RUNS.load(SeqCst) {
        runs_on_the_spot();
    }
    loop {
        std::thread::sleep(Duration::from_secs(3600));
        black_box(());
    }
}

/// One instruction, again and again: it is always in the same place.
fn runs_on_the_spot() -> ! {
    // SAFETY: a jump to itself.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("2: jmp 2b", options(noreturn));
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("2: b 2b", options(noreturn));
    }
}

/// Numbers that look like none.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}
