//! Where a thread parks for good: in each place it holds a lock that others need.

use super::heap;
use freezeframe_report::ring::{Owner, Ring};
use freezeframe_unwind::init::{Config, init};
use freezeframe_unwind::suspend::{Patience, Suspender};
use freezeframe_unwind::threads::{ThreadId, current};
use std::ffi::{CString, c_char, c_int, c_void};
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Set by the thread that parks, when it has the lock.
pub(crate) static PARKED: AtomicBool = AtomicBool::new(false);
/// Whether it goes on running; else it waits in the kernel.
pub(crate) static RUNS: AtomicBool = AtomicBool::new(false);
/// A thread for others to hold.
pub(crate) static COMPANION: AtomicI32 = AtomicI32::new(0);

unsafe extern "C" {
    static mut stdout: *mut c_void;
    static mut stderr: *mut c_void;
    fn flockfile(stream: *mut c_void);
    fn ftrylockfile(stream: *mut c_void) -> c_int;
}

/// Parks in the place of that name, and never returns.
pub(crate) fn park(place: &str, folder: &Path, ring: &Ring) {
    match place {
        "dl_iterate_phdr" => in_the_loaders_list(),
        "malloc, a signal" | "malloc, userfaultfd" => parked_in_malloc(),
        "flockfile(stdout)" => parked_with_a_stream(unsafe_stream(true)),
        "flockfile(stderr)" => parked_with_a_stream(unsafe_stream(false)),
        "Rust's stdout" => parked_with_rusts_stdout(),
        "dlopen" => parked_in_dlopen(folder),
        "vfork" => parked_in_vfork(folder),
        "a session" => parked_with_a_session(),
        "a held thread" => parked_with_a_held_thread(),
        "a slot" => parked_in_the_middle_of_a_record(ring),
        other => panic!("nothing parks in {other}"),
    }
}

/// The function that is on the parked thread's stack.
pub(crate) fn known_function(place: &str) -> &'static str {
    match place {
        "dl_iterate_phdr" => "parked_in_the_callback",
        "malloc, a signal" | "malloc, userfaultfd" => "parked_in_malloc",
        "flockfile(stdout)" | "flockfile(stderr)" => "parked_with_a_stream",
        "Rust's stdout" => "parked_with_rusts_stdout",
        "dlopen" => "constructor_that_parks",
        "vfork" => "waits_for_a_vforked_child",
        "a session" => "parked_with_a_session",
        "a held thread" => "parked_with_a_held_thread",
        _ => "parked_in_the_middle_of_a_record",
    }
}

/// Whether the lock is really held: another thread does not get it. `try_it` runs what would take it on a thread that is
/// lost then, and tells whether it came back.
pub(crate) fn is_held(place: &str, try_it: &dyn Fn(extern "C" fn()) -> bool, suspender: &Suspender) -> bool {
    match place {
        "dl_iterate_phdr" => !try_it(lists_images),
        "malloc, a signal" | "malloc, userfaultfd" => !try_it(allocates),
        // SAFETY: a stream of the C library's.
        "flockfile(stdout)" => unsafe { ftrylockfile(unsafe_stream(true)) != 0 },
        // SAFETY: as above.
        "flockfile(stderr)" => unsafe { ftrylockfile(unsafe_stream(false)) != 0 },
        "Rust's stdout" => !try_it(prints),
        "dlopen" => !try_it(opens_a_library),
        "a session" | "a held thread" => suspender.session().is_err(),
        // A vfork's parent and a slot's writer hold what nobody else waits for.
        _ => true,
    }
}

extern "C" fn allocates() {
    // SAFETY: never freed.
    black_box(unsafe { libc::malloc(heap::LARGE) });
}

extern "C" fn lists_images() {
    // SAFETY: the callback only returns.
    unsafe { libc::dl_iterate_phdr(Some(goes_on), std::ptr::null_mut()) };
}

extern "C" fn prints() {
    drop(std::io::stdout().lock());
}

extern "C" fn opens_a_library() {
    // SAFETY: the C library itself, which is loaded.
    unsafe { libc::dlopen(c"libm.so.6".as_ptr(), libc::RTLD_NOW) };
}

unsafe extern "C" fn goes_on(_: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    0
}

fn unsafe_stream(out: bool) -> *mut c_void {
    // SAFETY: set once, before `main`.
    unsafe { if out { stdout } else { stderr } }
}

/// Stays here for good.
pub(crate) extern "C" fn stay() {
    PARKED.store(true, Ordering::SeqCst);
    while RUNS.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
    loop {
        // Of who waits in the kernel two registers are known: it has to be a wait that can be walked from them.
        std::thread::sleep(std::time::Duration::from_secs(3600));
        black_box(());
    }
}

#[inline(never)]
fn in_the_loaders_list() {
    // SAFETY: the callback never returns.
    unsafe { libc::dl_iterate_phdr(Some(parked_in_the_callback), std::ptr::null_mut()) };
    black_box(());
}

#[inline(never)]
unsafe extern "C" fn parked_in_the_callback(_: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    stay();
    black_box(1)
}

#[inline(never)]
fn parked_in_malloc() {
    // SAFETY: it does not come back: what it writes to behind the chunk cannot be written to.
    black_box(unsafe { libc::malloc(heap::LARGE) });
}

#[inline(never)]
fn parked_with_a_stream(stream: *mut c_void) {
    // SAFETY: a stream of the C library's.
    unsafe { flockfile(stream) };
    stay();
    black_box(());
}

#[inline(never)]
fn parked_with_rusts_stdout() {
    let lock = std::io::stdout().lock();
    stay();
    drop(black_box(lock));
}

fn open(library: &Path) -> *mut c_void {
    let path = CString::new(library.to_str().expect("a path")).expect("no zero byte");
    // SAFETY: a library of this program's own.
    unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) }
}

#[inline(never)]
fn parked_in_dlopen(folder: &Path) {
    black_box(open(&folder.join("libparks.so")));
    panic!("the constructor came back");
}

#[inline(never)]
fn parked_in_vfork(folder: &Path) {
    let library = open(&folder.join("libvforks.so"));
    // SAFETY: a function of the library's, of this type; the child stays in it until its parent dies.
    unsafe {
        let function: *mut c_void =
            libc::dlsym(library, c"waits_for_a_vforked_child".as_ptr().cast::<c_char>());
        assert!(!function.is_null());
        let function: extern "C" fn(extern "C" fn()) -> c_int = std::mem::transmute(function);
        black_box(function(stay_until_the_parent_dies));
    }
}

extern "C" fn stay_until_the_parent_dies() {
    // SAFETY: plain calls, in a child that shares this process's memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    stay();
}

#[inline(never)]
fn parked_with_a_session() {
    let session = init(Config::default()).expect("it was set up").session().expect("nobody captures");
    stay();
    drop(black_box(session));
}

#[inline(never)]
fn parked_with_a_held_thread() {
    let mut session = init(Config::default()).expect("it was set up").session().expect("nobody captures");
    let patience = Patience { stop_within_ns: 10_000_000_000, hold_at_most_ns: 3_600_000_000_000 };
    let companion = ThreadId(COMPANION.load(Ordering::SeqCst));
    let held = session.suspend(companion, patience).expect("it stops");
    stay();
    drop(black_box(held));
}

/// The thread that parks in its third write to the file.
static WRITER: AtomicI32 = AtomicI32::new(0);

#[inline(never)]
fn parked_in_the_middle_of_a_record(ring: &Ring) {
    WRITER.store(current().0, Ordering::SeqCst);
    let mut record = [0u8; 64];
    record[4] = 52;
    let _ = black_box(ring.write(black_box(&record)));
}

/// Writes to the file; the thread above stays in it, with a slot claimed.
pub(crate) fn write_or_stay(descriptor: i32, at: u64, bytes: &[u8]) -> bool {
    if WRITER.load(Ordering::SeqCst) == current().0 && bytes.len() > 8 {
        stay();
    }
    // SAFETY: the kernel reads the bytes.
    let written = unsafe { libc::pwrite64(descriptor, bytes.as_ptr().cast(), bytes.len(), at as i64) };
    written == bytes.len() as isize
}

/// Who writes.
pub(crate) fn owner() -> Owner {
    Owner::this_process().expect("/proc")
}
