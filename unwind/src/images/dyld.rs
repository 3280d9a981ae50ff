//! What dyld tells of the images that it has loaded: by callbacks, and in a structure that any reader may look at.
//!
//! The callbacks feed a fixed list that takes no lock to read. dyld's own functions that list images
//! (`_dyld_get_image_header` and its kin) take its lock, and wait for good if the thread that holds it is stopped.
//!
//! Sources: `mach-o/dyld.h`, `mach-o/dyld_images.h`, `mach/task_info.h`.

use super::places::{Loaded, Places};
use crate::memory::Memory;
use crate::sys;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering};
use mach2::kern_return::KERN_SUCCESS;
use mach2::task_info::{TASK_DYLD_INFO, TASK_DYLD_INFO_COUNT, task_dyld_info};

static LIST: Places = Places::new();
static REGISTERED: AtomicBool = AtomicBool::new(false);
/// dyld has told of what was loaded before: the list is complete.
static COMPLETE: AtomicBool = AtomicBool::new(false);

type Callback = extern "C" fn(header: *const c_void, slide: isize);

unsafe extern "C" {
    fn _dyld_register_func_for_add_image(callback: Callback);
    fn _dyld_register_func_for_remove_image(callback: Callback);
}

/// Asks dyld to tell of images from now on, and at once of those that are there. There is no way to take that back.
pub(super) fn register<M: Memory>(memory: &mut M) {
    if REGISTERED.swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: both functions may be called at any time while this image is loaded.
    unsafe {
        _dyld_register_func_for_remove_image(removed);
        _dyld_register_func_for_add_image(added);
    }
    add_what_was_not_told(memory);
    COMPLETE.store(true, Ordering::Release);
}

/// dyld tells of the images that are there, lets go of its lock, and only then notes that it is to tell of others: one that
/// another thread loads in between is in its list alone.
fn add_what_was_not_told<M: Memory>(memory: &mut M) {
    const TRIES: u32 = 4;
    let steady = (0..TRIES).filter_map(|_| AllImageInfos::read(memory)).find(|infos| !infos.is_changing());
    let Some(infos) = steady else { return };
    for index in 0..infos.count {
        let Some(image) = infos.image(memory, index) else { return };
        if !LIST.contains(image.load_address) {
            LIST.note(image.load_address, image.path);
        }
    }
}

extern "C" fn added(header: *const c_void, _slide: isize) {
    let mut info = libc::Dl_info {
        dli_fname: core::ptr::null(),
        dli_fbase: core::ptr::null_mut(),
        dli_sname: core::ptr::null(),
        dli_saddr: core::ptr::null_mut(),
    };
    // SAFETY: looks an address up; dyld's lock is this thread's, which dyld calls from.
    let found = unsafe { libc::dladdr(header, &mut info) } != 0;
    LIST.note(header as u64, if found { info.dli_fname as u64 } else { 0 });
}

extern "C" fn removed(header: *const c_void, _slide: isize) {
    LIST.remove(header as u64);
}

/// The images that the callbacks have told of; none if dyld was not asked, or not all of them fitted.
pub(super) fn told() -> Option<impl Iterator<Item = Loaded>> {
    let whole = COMPLETE.load(Ordering::Acquire) && !LIST.has_overflowed();
    whole.then(|| LIST.iter())
}

/// `dyld_all_image_infos`, as far as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AllImageInfos {
    version: u32,
    pub(super) count: u32,
    /// The array of images; null while dyld changes it.
    array: u64,
    /// dyld's own header: it is not in the array.
    pub(super) dyld: u64,
    /// When dyld has last changed the array.
    changed: u64,
    dyld_path: u64,
}

impl AllImageInfos {
    const BYTES: usize = 200;
    /// From this version on there is a time of the last change, and dyld's path.
    const TIMED: u32 = 15;

    /// Reads it from where the kernel says that it lies. None if there is none.
    pub(super) fn read<M: Memory>(memory: &mut M) -> Option<Self> {
        let mut info = task_dyld_info::default();
        let mut count = TASK_DYLD_INFO_COUNT;
        // SAFETY: the kernel writes at most `count` words of four bytes to `info`.
        let result = unsafe {
            mach2::task::task_info(sys::task(), TASK_DYLD_INFO, (&raw mut info).cast(), &mut count)
        };
        let address = info.all_image_info_addr;
        if result != KERN_SUCCESS || address == 0 {
            return None;
        }
        let mut bytes = [0; Self::BYTES];
        let read = memory.read(address, &mut bytes);
        let word = |at: usize| -> Option<u64> {
            let end = at.checked_add(8)?;
            bytes.get(..read)?.get(at..end)?.first_chunk().map(|word| u64::from_le_bytes(*word))
        };
        let head = word(0)?;
        let version = head as u32;
        let timed = version >= Self::TIMED;
        Some(Self {
            version,
            count: (head >> 32) as u32,
            array: word(8)?,
            dyld: word(32)?,
            changed: if timed { word(184).unwrap_or(0) } else { 0 },
            dyld_path: if timed { word(192).unwrap_or(0) } else { 0 },
        })
    }

    /// Whether dyld is changing the array at the moment.
    pub(super) const fn is_changing(&self) -> bool {
        self.array == 0
    }

    /// The image of that index in the array.
    pub(super) fn image<M: Memory>(&self, memory: &mut M, index: u32) -> Option<Loaded> {
        const ENTRY: u64 = 24;
        let address = self.array.checked_add(u64::from(index).checked_mul(ENTRY)?)?;
        let mut entry = [0; ENTRY as usize];
        (memory.read(address, &mut entry) == entry.len()).then_some(())?;
        let (words, _) = entry.as_chunks::<8>();
        let word = |n: usize| words.get(n).map(|word| u64::from_le_bytes(*word));
        let (load_address, path) = (word(0)?, word(1)?);
        // The time of the file's last change is zero in practice: the path's address tells as much.
        (load_address != 0).then_some(Loaded { load_address, path, serial: path })
    }

    /// dyld itself.
    pub(super) fn dyld_image(&self) -> Option<Loaded> {
        (self.dyld != 0).then_some(Loaded {
            load_address: self.dyld,
            path: self.dyld_path,
            serial: self.dyld_path,
        })
    }
}
