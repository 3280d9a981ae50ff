//! The shared memory, and who may tell: the main thread of the process that was given it.

use crate::{environment, library};
use freezeframe_monitor::{Activity, SharedBoard};
use freezeframe_unwind::threads::{ThreadId, current};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

static BOARD: OnceLock<SharedBoard> = OnceLock::new();
/// The main thread's id, while there is a board; zero in a child of a fork, which shares the memory and must not tell.
static MAIN: AtomicI32 = AtomicI32::new(0);

/// Before the program's own initialisers.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    // SAFETY: the program has not begun.
    let Some(path) = (unsafe { environment::take() }) else { return };
    let main = current();
    let Some(board) = SharedBoard::join(path, main) else { return };
    // SAFETY: a function that stores a number.
    if unsafe { libc::pthread_atfork(None, None, Some(forked)) } != 0 {
        return;
    }
    library::look();
    if BOARD.set(board).is_ok() {
        MAIN.store(main.0, Ordering::Relaxed);
    }
}

extern "C" fn forked() {
    MAIN.store(0, Ordering::Relaxed);
}

/// Whether the calling thread is the one that is watched.
pub(crate) fn is_watched() -> bool {
    let main = MAIN.load(Ordering::Relaxed);
    main != 0 && current() == ThreadId(main)
}

/// Tells what the loop is about to do.
pub(crate) fn tell(activity: Activity) {
    if let Some(board) = BOARD.get() {
        // SAFETY: it may always be asked.
        let around = library::main_depth().map_or(0, |depth| unsafe { depth() });
        board.tell(activity, u32::try_from(around).unwrap_or(0).saturating_add(1));
    }
}
