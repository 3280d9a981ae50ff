//! A model of the mapped file, in which loom notices two that use a byte without an order between them.

extern crate std;
use crate::layout::PAYLOAD;
use core::ptr::NonNull;
use freezeframe_races::atomic::{AtomicU32, AtomicU64};
use freezeframe_races::loom::cell::UnsafeCell;
use std::sync::OnceLock;
use std::vec::Vec;

/// The memory of a ring.
#[derive(Debug)]
pub(in super::super) struct Memory {
    pub(in super::super) slots: usize,
    pub(in super::super) stride: usize,
    cells: OnceLock<Cells>,
}

#[derive(Debug)]
struct Cells {
    counters: [AtomicU64; 2],
    words: Vec<AtomicU32>,
    payload: Vec<UnsafeCell<u8>>,
}

// SAFETY: loom fails before a race.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(in super::super) const unsafe fn new(_base: NonNull<u8>, slots: usize, stride: usize) -> Self {
        Self { slots, stride, cells: OnceLock::new() }
    }

    fn cells(&self) -> &Cells {
        self.cells.get_or_init(|| Cells {
            counters: Default::default(),
            words: (0..self.slots * PAYLOAD / 4).map(|_| AtomicU32::new(0)).collect(),
            payload: (0..self.slots * (self.stride - PAYLOAD)).map(|_| UnsafeCell::new(0)).collect(),
        })
    }

    pub(in super::super) fn counter(&self, field: usize) -> &AtomicU64 {
        &self.cells().counters[field / 8]
    }

    pub(in super::super) fn word(&self, index: usize, offset: usize) -> &AtomicU32 {
        &self.cells().words[(index * PAYLOAD + offset) / 4]
    }

    pub(in super::super) fn store(&self, index: usize, offset: usize, bytes: &[u8]) {
        let at = index * (self.stride - PAYLOAD) + offset;
        for (cell, byte) in self.cells().payload[at..].iter().zip(bytes) {
            // SAFETY: loom fails before a race.
            cell.with_mut(|place| unsafe { *place = *byte });
        }
    }

    /// What a reader finds there.
    pub(in super::super) fn load(&self, index: usize, offset: usize, bytes: &mut [u8]) {
        let at = index * (self.stride - PAYLOAD) + offset;
        for (cell, byte) in self.cells().payload[at..].iter().zip(bytes) {
            // SAFETY: as above.
            *byte = cell.with(|place| unsafe { *place });
        }
    }
}
