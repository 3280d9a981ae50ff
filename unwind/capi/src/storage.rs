//! The caller's memory.

use crate::error::ff_error;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU64, Ordering};
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::init::init;
use freezeframe_unwind::snapshot::Snapshot;
use freezeframe_unwind::suspend::Suspender;

/// How many threads one capture has room for.
pub const FF_MAX_THREADS: usize = 128;
/// How many frames one capture has room for, of all threads together.
pub const FF_MAX_FRAMES: usize = 4096;
/// How many bytes `ff_init` needs at most, for memory that is set aside when a program is compiled; see `ff_storage_size`.
pub const FF_STORAGE_SIZE: usize = 1024 * 1024;
/// A power of two that the address of the memory must be a multiple of.
pub const FF_STORAGE_ALIGN: usize = 16;

/// Images, the latest capture, and what walks have learned: in the memory that was given to `ff_init`. One user at a time; a signal
/// handler needs one of its own.
#[derive(Debug)]
pub struct ff_core {
    /// [`READY`] or [`BUSY`], or anything else in memory that was not set up.
    state: AtomicU64,
    content: Content,
}

#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) suspender: Suspender,
    pub(crate) images: ImageTable,
    pub(crate) snapshot: Snapshot<FF_MAX_THREADS, FF_MAX_FRAMES>,
    /// Frames of this library's own, innermost, which the caller does not see.
    pub(crate) own_frames: usize,
}

static_assertions::const_assert!(size_of::<ff_core>() <= FF_STORAGE_SIZE);
static_assertions::const_assert!(align_of::<ff_core>() <= FF_STORAGE_ALIGN);

const READY: u64 = 0x6666_5f72_6561_6479;
const BUSY: u64 = 0x6666_5f62_7573_7921;

/// How the process is set up. Zero in each field is the default.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ff_config {
    /// `sizeof(ff_config)`.
    pub size: u32,
    /// Linux: the signal that stops threads. Zero is SIGURG; runtimes that use that themselves, as Go's does, need another. The
    /// first call in a process decides.
    pub signal: i32,
    /// Zero.
    pub reserved: [u64; 4],
}

/// How many bytes `ff_init` needs; not more than `FF_STORAGE_SIZE`.
///
/// # Signal safety
/// Safe.
#[unsafe(no_mangle)]
pub extern "C" fn ff_storage_size() -> usize {
    size_of::<ff_core>()
}

/// Sets up the process, if that was not done yet, and `storage`, whose address is a multiple of `FF_STORAGE_ALIGN`. It is the
/// library's from then on and is never given back; nothing else is allocated. `config` may be null. `*core` is the same address.
///
/// # Errors
/// `FF_ERROR_STORAGE` if `storage` is too small or badly aligned, `FF_ERROR_INIT`, `FF_ERROR_IMAGES`.
///
/// # Safety
/// `storage` has `size` bytes, which nobody else uses; `config` is null or valid; `core` is null or can be written to.
///
/// # Signal safety
/// Not for signal handlers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_init(
    storage: *mut c_void,
    size: usize,
    config: *const ff_config,
    core: *mut *mut ff_core,
) -> ff_error {
    // SAFETY: as the caller promises.
    ff_error::of(unsafe { set_up(storage, size, config, core) })
}

unsafe fn set_up(
    storage: *mut c_void,
    size: usize,
    config: *const ff_config,
    out: *mut *mut ff_core,
) -> Result<(), ff_error> {
    if storage.is_null() || out.is_null() {
        return Err(ff_error::FF_ERROR_NULL);
    }
    if size < size_of::<ff_core>() || storage.addr() & (FF_STORAGE_ALIGN - 1) != 0 {
        return Err(ff_error::FF_ERROR_STORAGE);
    }
    // SAFETY: as the caller promises.
    let config = unsafe { crate::structs::take(config) }?;
    let suspender = crate::context::config(config.map_or(0, |config| config.signal));
    let suspender = init(suspender.unwrap_or_default()).map_err(|_| ff_error::FF_ERROR_INIT)?;
    let core = storage.cast::<ff_core>();
    // SAFETY: aligned, large enough and nobody else's; each field is written before there is a reference to it. One by one: all at
    // once they might be put together on the stack.
    let core = unsafe {
        (&raw mut (*core).content.suspender).write(suspender);
        (&raw mut (*core).content.images).write(ImageTable::new());
        (&raw mut (*core).content.snapshot).write(Snapshot::new());
        (&raw mut (*core).content.own_frames).write(0);
        (&raw mut (*core).state).write(AtomicU64::new(READY));
        &mut *core
    };
    core.content.images.refresh().map_err(|_| ff_error::FF_ERROR_IMAGES)?;
    // SAFETY: not null, and can be written to.
    unsafe { out.write(core) };
    Ok(())
}

/// Calls `act` with what is in the memory, if nobody else uses it.
///
/// # Safety
/// `core` is null, or the address of `ff_storage_size` bytes.
pub(crate) unsafe fn with(
    core: *mut ff_core,
    act: impl FnOnce(&mut Content) -> Result<(), ff_error>,
) -> ff_error {
    if core.is_null() {
        return ff_error::FF_ERROR_NULL;
    }
    if core.addr() & (FF_STORAGE_ALIGN - 1) != 0 {
        return ff_error::FF_ERROR_STORAGE;
    }
    // SAFETY: as the caller promises; any word will do.
    let state = unsafe { &(*core).state };
    match state.compare_exchange(READY, BUSY, Ordering::Acquire, Ordering::Relaxed) {
        Ok(_) => {}
        Err(BUSY) => return ff_error::FF_ERROR_BUSY,
        Err(_) => return ff_error::FF_ERROR_STORAGE,
    }
    // SAFETY: set up, and nobody else's until the word is put back.
    let result = act(unsafe { &mut (*core).content });
    state.store(READY, Ordering::Release);
    ff_error::of(result)
}
