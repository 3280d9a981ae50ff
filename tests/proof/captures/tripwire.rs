//! Allocators that end the process if a thread asks for memory, or gives it back, while captures go on: Rust's, and the C
//! library's, whose names the program itself defines.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// What the process ends with then.
pub(crate) const TRIPPED: i32 = 97;

static ARMED: AtomicBool = AtomicBool::new(false);
/// The one thread that may allocate: it takes no part.
static BYSTANDER: AtomicI32 = AtomicI32::new(0);

/// From now on nobody allocates but the process's main thread: neither who captures, nor who is captured, nor a helper.
pub(crate) fn arm() {
    BYSTANDER.store(std::process::id() as i32, Ordering::Relaxed);
    ARMED.store(true, Ordering::SeqCst);
}

fn check(what: &str) {
    // SAFETY: no arguments; a write of bytes that are there; may be called anywhere.
    unsafe {
        if ARMED.load(Ordering::Relaxed) && libc::gettid() != BYSTANDER.load(Ordering::Relaxed) {
            for text in ["it called ", what, " while a capture went on\n"] {
                libc::write(2, text.as_ptr().cast(), text.len());
            }
            libc::_exit(TRIPPED);
        }
    }
}

struct Tripwire;

#[global_allocator]
static TRIPWIRE: Tripwire = Tripwire;

// SAFETY: the system's, with a look before.
unsafe impl GlobalAlloc for Tripwire {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check("Rust's alloc");
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        check("Rust's dealloc");
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }
}

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(place: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, size: usize) -> *mut c_void;
    fn __libc_free(place: *mut c_void);
}

macro_rules! interposed {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty = $call:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                check(stringify!($name));
                // SAFETY: as the caller promises.
                unsafe { $call }
            }
        )*
    };
}

interposed! {
    malloc(size: usize) -> *mut c_void = __libc_malloc(size);
    calloc(count: usize, size: usize) -> *mut c_void = __libc_calloc(count, size);
    realloc(place: *mut c_void, size: usize) -> *mut c_void = __libc_realloc(place, size);
    memalign(alignment: usize, size: usize) -> *mut c_void = __libc_memalign(alignment, size);
    aligned_alloc(alignment: usize, size: usize) -> *mut c_void = __libc_memalign(alignment, size);
    free(place: *mut c_void) -> () = __libc_free(place);
    posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int = {
        *out = __libc_memalign(alignment, size);
        if (*out).is_null() { libc::ENOMEM } else { 0 }
    };
}
