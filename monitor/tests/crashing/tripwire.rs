//! An allocator that ends the process if a thread that has crashed asks it for anything.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI32, Ordering};

/// What the process ends with then.
const TRIPPED: i32 = 99;

/// The thread that is about to crash; it allocates nothing from then on.
static ARMED: AtomicI32 = AtomicI32::new(0);

pub(crate) struct Tripwire;

#[global_allocator]
static TRIPWIRE: Tripwire = Tripwire;

/// From now on the calling thread must not allocate.
pub(crate) fn arm() {
    ARMED.store(current(), Ordering::SeqCst);
}

fn current() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

fn check() {
    let armed = ARMED.load(Ordering::Relaxed);
    if armed != 0 && armed == current() {
        // SAFETY: may be called anywhere.
        unsafe { libc::_exit(TRIPPED) };
    }
}

// SAFETY: the system's, with a look before.
unsafe impl GlobalAlloc for Tripwire {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        check();
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }
}
