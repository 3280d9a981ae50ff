//! What a user of freezeframe does, for the model kernel to call: everything in static storage, and accessors for what
//! was captured. A single thread calls these functions, as the model does.
#![no_std]

#[cfg(feature = "mischief")]
mod mischief;
mod results;

use core::ptr::addr_of_mut;
use core::slice::from_raw_parts;
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::init::{Config, init};
use freezeframe_unwind::snapshot::{Options, Snapshot, SnapshotError};
use freezeframe_unwind::suspend::Suspender;
use freezeframe_unwind::suspend::exempt::{self, Exemption};
use freezeframe_unwind::threads::{self, ThreadId};
use freezeframe_unwind::walk::Depth;

type Threads = Snapshot<256, 8192>;

struct Storage {
    suspender: Option<Suspender>,
    images: ImageTable,
    snapshot: Threads,
    exemption: Option<Exemption>,
}

static mut STORAGE: Storage =
    Storage { suspender: None, images: ImageTable::new(), snapshot: Snapshot::new(), exemption: None };

fn storage() -> &'static mut Storage {
    // SAFETY: only one thread calls this library's functions, and each borrows it once.
    unsafe { &mut *addr_of_mut!(STORAGE) }
}

unsafe extern "C" {
    fn abort() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: takes nothing and does not come back.
    unsafe { abort() }
}

/// Sets the core up. Returns zero.
#[unsafe(no_mangle)]
pub extern "C" fn driver_init() -> i32 {
    match init(Config::default()) {
        Ok(suspender) => {
            storage().suspender = Some(suspender);
            0
        }
        Err(error) => match error {},
    }
}

/// Brings the table of images up to date. Returns zero, or minus one if it stays as it was.
#[unsafe(no_mangle)]
pub extern "C" fn driver_refresh() -> i32 {
    if storage().images.refresh().is_ok() { 0 } else { -1 }
}

/// The calling thread's id.
#[unsafe(no_mangle)]
pub extern "C" fn driver_current() -> i32 {
    threads::current().0
}

/// How many threads there are, or minus one.
#[unsafe(no_mangle)]
pub extern "C" fn driver_list() -> i32 {
    let mut ids = [ThreadId(0); 8];
    threads::list(&mut ids).map_or(-1, |count| count as i32)
}

/// Exempts a thread from being stopped; of zero: takes that back. Returns zero.
#[unsafe(no_mangle)]
pub extern "C" fn driver_exempt(thread: i32) -> i32 {
    storage().exemption = None;
    if thread != 0 {
        storage().exemption = exempt::exempt(ThreadId(thread));
    }
    0
}

/// Begins a session and never ends it. Returns zero, or minus one if there is none to be had.
#[unsafe(no_mangle)]
pub extern "C" fn driver_forget_session() -> i32 {
    let session = storage().suspender.and_then(|suspender| suspender.session().ok());
    session.map_or(-1, |session| {
        core::mem::forget(session);
        0
    })
}

/// What to capture. The model fills it in.
#[repr(C)]
#[derive(Debug)]
pub struct Request {
    /// The thread to come first; zero: the main thread.
    first: i64,
    /// Threads to leave out.
    excluded: *const ThreadId,
    excluded_count: u64,
    /// Of the first thread: how many frames to keep of both ends.
    first_depth: [u64; 2],
    /// Of each other thread.
    other_depth: [u64; 2],
    /// Whether what is to be captured is still going on.
    still: u64,
}

/// Captures. Returns zero, minus one if the threads cannot be listed, and minus two before [`driver_init`].
///
/// # Safety
/// `request` and what it points to can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn driver_capture(request: *const Request) -> i32 {
    // SAFETY: as the caller promises.
    let request = unsafe { &*request };
    let exclude = match request.excluded_count {
        0 => &[][..],
        // SAFETY: as the caller promises.
        count => unsafe { from_raw_parts(request.excluded, count as usize) },
    };
    let depth = |[innermost, outermost]: [u64; 2]| Depth {
        innermost: innermost as usize,
        outermost: outermost as usize,
    };
    let options = Options {
        first: (request.first != 0).then_some(ThreadId(request.first as i32)),
        exclude,
        first_depth: depth(request.first_depth),
        other_depth: depth(request.other_depth),
        still: &|| request.still != 0,
        ..Options::default()
    };
    let Storage { suspender, images, snapshot, .. } = storage();
    let Some(suspender) = suspender else { return -2 };
    match snapshot.capture(suspender, images, &options) {
        Ok(()) => 0,
        Err(SnapshotError::Threads(_)) => -1,
    }
}
