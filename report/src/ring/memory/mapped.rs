//! Memory of this process's, or of a mapping.

use crate::layout::{COUNTERS, FIRST_SLOT, PAYLOAD};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// The memory of a ring.
#[derive(Debug)]
pub(in super::super) struct Memory {
    base: NonNull<u8>,
    pub(in super::super) slots: usize,
    pub(in super::super) stride: usize,
}

// SAFETY: all shared words are atomics; a slot's other bytes belong to who claimed it by CAS.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// # Safety
    /// As of [`Ring::new`](super::super::Ring::new).
    pub(in super::super) const unsafe fn new(base: NonNull<u8>, slots: usize, stride: usize) -> Self {
        Self { base, slots, stride }
    }

    /// Another handle of the same memory.
    #[cfg(feature = "std")]
    pub(in super::super) const fn again(&self) -> Self {
        Self { ..*self }
    }

    /// One of the file's counters.
    pub(in super::super) fn counter(&self, field: usize) -> &AtomicU64 {
        // SAFETY: the counters lie in the first page, aligned; `new`'s caller vouches for the mapping.
        unsafe { self.base.add(COUNTERS).add(field).cast().as_ref() }
    }

    /// A word of a slot's head. `index` is below the number of slots and `offset` below the payload's.
    pub(in super::super) fn word(&self, index: usize, offset: usize) -> &AtomicU32 {
        let at =
            FIRST_SLOT.saturating_add(index.min(self.slots.saturating_sub(1)).saturating_mul(self.stride));
        let offset = offset.min(PAYLOAD) & !3;
        // SAFETY: `at` is the start of a slot, which has at least a page; `new`'s caller vouches for the mapping.
        unsafe { self.base.add(at).add(offset).cast().as_ref() }
    }

    /// Copies bytes into the payload of a slot that the caller has claimed; what would reach beyond it is not copied.
    pub(in super::super) fn store(&self, index: usize, offset: usize, bytes: &[u8]) {
        let offset = PAYLOAD.saturating_add(offset);
        if offset.saturating_add(bytes.len()) > self.stride || index >= self.slots {
            return;
        }
        let at = FIRST_SLOT.saturating_add(index.saturating_mul(self.stride)).saturating_add(offset);
        // SAFETY: inside the slot, as checked; the slot is the caller's, and `bytes` is no part of the mapping.
        unsafe { self.base.add(at).as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}
