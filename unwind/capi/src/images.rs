//! Which file an address belongs to.

use crate::error::ff_error;
use crate::storage::{Content, ff_core, with};
use crate::structs::give;
use freezeframe_unwind::images::{Image, ImageKind};

/// What an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum ff_image_kind {
    /// An ELF executable or library.
    FF_IMAGE_ELF = 1,
    /// The kernel's vDSO: ELF, but in no file.
    FF_IMAGE_VDSO = 2,
    /// Executable memory of no file: code made at run time, a kernel's page.
    FF_IMAGE_ANONYMOUS = 3,
    /// A Mach-O executable or library.
    FF_IMAGE_MACH_O = 4,
}

/// An image: an executable or a library that is loaded. What it points to is in the library's memory, and valid until the next
/// `ff_refresh_images`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ff_image {
    /// `sizeof(ff_image)`, to be set by the caller.
    pub size: u32,
    /// An `ff_image_kind`.
    pub kind: u32,
    /// Where it begins.
    pub start: u64,
    /// Where it ends, exclusive.
    pub end: u64,
    /// What to add to an address in the file to get the one in memory.
    pub slide: u64,
    /// Its path, without a zero at its end.
    pub path: *const u8,
    /// How many bytes the path has.
    pub path_length: usize,
    /// Its build id, or a Mach-O file's UUID.
    pub build_id: *const u8,
    /// How many bytes that has; zero if there is none.
    pub build_id_length: usize,
    /// Zero.
    pub reserved: [u64; 4],
}

/// Learns which images are loaded. Should be called before a capture if libraries may have been loaded since: a frame outside of
/// known code ends a walk. `ff_init` has called it once.
///
/// # Errors
/// `FF_ERROR_IMAGES`.
///
/// # Safety
/// `core` is null or from `ff_init`.
///
/// # Signal safety
/// Safe: no lock of the loader's is taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_refresh_images(core: *mut ff_core) -> ff_error {
    let act =
        |content: &mut Content| content.images.refresh().map_err(|_| ff_error::FF_ERROR_IMAGES).map(|_| ());
    // SAFETY: as the caller promises.
    unsafe { with(core, act) }
}

/// The image that an address lies in. For a frame that is `ff_frame.lookup`.
///
/// # Errors
/// `FF_ERROR_NOT_FOUND` if it lies in none.
///
/// # Safety
/// `core` is null or from `ff_init`; `image` is null or valid.
///
/// # Signal safety
/// Safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_image_find(core: *mut ff_core, address: u64, image: *mut ff_image) -> ff_error {
    let act = |content: &mut Content| {
        let (_, found) = content.images.find(address).ok_or(ff_error::FF_ERROR_NOT_FOUND)?;
        // SAFETY: as the caller promises.
        unsafe { give(image, described(content, found)) }
    };
    // SAFETY: as the caller promises.
    unsafe { with(core, act) }
}

/// An image by its number from 0 on, in the order of addresses; `FF_ERROR_NOT_FOUND` behind the last.
///
/// # Safety
/// `core` is null or from `ff_init`; `image` is null or valid.
///
/// # Signal safety
/// Safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_image_at(core: *mut ff_core, index: usize, image: *mut ff_image) -> ff_error {
    let act = |content: &mut Content| {
        let found = content.images.get(index).ok_or(ff_error::FF_ERROR_NOT_FOUND)?;
        // SAFETY: as the caller promises.
        unsafe { give(image, described(content, found)) }
    };
    // SAFETY: as the caller promises.
    unsafe { with(core, act) }
}

/// Where the function begins that an address lies in, as far as the unwind tables of its image know: addresses from there on can be
/// compared between runs.
///
/// # Errors
/// `FF_ERROR_NOT_FOUND` if they do not know.
///
/// # Safety
/// `core` is null or from `ff_init`; `start` is null or can be written to.
///
/// # Signal safety
/// Safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_function_start(core: *mut ff_core, address: u64, start: *mut u64) -> ff_error {
    if start.is_null() {
        return ff_error::FF_ERROR_NULL;
    }
    let act = |content: &mut Content| {
        let found = content.snapshot.function_start(&content.images, address);
        // SAFETY: not null, and can be written to.
        unsafe { start.write(found.ok_or(ff_error::FF_ERROR_NOT_FOUND)?) };
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { with(core, act) }
}

fn described(content: &Content, image: &Image) -> ff_image {
    let (path, build_id) = (content.images.path(image), content.images.build_id(image));
    ff_image {
        size: size_of::<ff_image>() as u32,
        kind: image.kind as u32,
        start: image.range.start,
        end: image.range.end,
        slide: image.slide,
        path: path.as_ptr(),
        path_length: path.len(),
        build_id: build_id.as_ptr(),
        build_id_length: build_id.len(),
        reserved: [0; 4],
    }
}

static_assertions::const_assert!(ImageKind::MachO as u32 == ff_image_kind::FF_IMAGE_MACH_O as u32);
