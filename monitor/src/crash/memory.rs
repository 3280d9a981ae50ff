//! Memory that is there from the start, away from the heap: between two pages that nobody can write to.

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use std::ffi::c_void;
use std::ptr::null_mut;

/// Zeroed memory, page-aligned, every page of it there, with a guard page at either end.
#[derive(Debug)]
pub(super) struct Guarded {
    /// Where the first guard page begins.
    base: *mut c_void,
    bytes: usize,
    page: usize,
}

// SAFETY: a mapping belongs to no thread.
unsafe impl Send for Guarded {}
// SAFETY: as above; only its address is given out.
unsafe impl Sync for Guarded {}

impl Guarded {
    /// At least `bytes` of it.
    pub(super) fn new(bytes: usize) -> Result<Self, Errno> {
        let page = rustix::param::page_size();
        let bytes = bytes.next_multiple_of(page);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe {
            mmap_anonymous(null_mut(), bytes + 2 * page, protection, MapFlags::PRIVATE | MapFlags::POPULATE)?
        };
        let guarded = Self { base, bytes, page };
        for guard in [base, base.wrapping_byte_add(page + bytes)] {
            // SAFETY: the first and the last page of the mapping made above.
            unsafe { mprotect(guard, page, MprotectFlags::empty()) }?;
        }
        Ok(guarded)
    }

    /// From now on nobody can write to it.
    pub(super) fn make_read_only(&self) -> Result<(), Errno> {
        // SAFETY: this value's own mapping; what it holds is only read from now on.
        unsafe { mprotect(self.start().cast(), self.bytes, MprotectFlags::READ) }
    }

    /// Its first byte.
    pub(super) fn start(&self) -> *mut u8 {
        self.base.wrapping_byte_add(self.page).cast()
    }

    /// The address behind its last byte.
    pub(super) fn end(&self) -> usize {
        self.start() as usize + self.bytes
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`; who was given its address has given up using it.
        let _ = unsafe { munmap(self.base, self.bytes + 2 * self.page) };
    }
}
