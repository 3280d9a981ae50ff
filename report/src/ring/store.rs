//! Each change of a ring: in memory, for the writers of this process, and then in the file behind it.

use super::memory::Memory;
use crate::layout::{COUNTERS, FIRST_SLOT, PAYLOAD, SlotHeader, SlotState};
use core::mem::offset_of;
use core::sync::atomic::Ordering;

/// The file behind a ring. Every change of the ring is written to it in the order of the protocol, by the kernel: a store
/// into the pages of a file that somebody cuts off would end the program.
#[derive(Clone, Copy, Debug)]
pub struct Behind {
    /// The file's descriptor.
    pub descriptor: i32,
    /// Writes all of the bytes to the descriptor's file, at that offset; whether it could. Signal-safe.
    pub write: fn(i32, u64, &[u8]) -> bool,
}

/// Where a ring lies. With a file behind it the memory has what comes before the payloads, which are in the file alone.
/// Functions that change something return whether the file has taken it.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) memory: Memory,
    pub(super) behind: Option<Behind>,
}

impl Store {
    /// A word of a slot's head.
    pub(super) fn word(&self, index: usize, field: usize) -> u32 {
        self.memory.word(index, field).load(Ordering::Acquire)
    }

    pub(super) fn set_word(&self, index: usize, field: usize, value: u32) -> bool {
        self.memory.word(index, field).store(value, Ordering::Release);
        self.pass_on(self.at(index, field), &value.to_le_bytes())
    }

    pub(super) fn set_state(&self, index: usize, state: SlotState) -> bool {
        self.set_word(index, offset_of!(SlotHeader, state), state as u32)
    }

    /// Changes a slot's state if it is the one that is expected; whether it was.
    pub(super) fn exchange_state(&self, index: usize, from: SlotState, to: SlotState) -> bool {
        let field = offset_of!(SlotHeader, state);
        let word = self.memory.word(index, field);
        let exchanged =
            word.compare_exchange(from as u32, to as u32, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if exchanged {
            self.pass_on(self.at(index, field), &(to as u32).to_le_bytes());
        }
        exchanged
    }

    /// Stores words into the head of a claimed slot, the first one last: who sees it sees the others.
    pub(super) fn set_words(&self, index: usize, field: usize, bytes: &[u8]) -> bool {
        let (words, _) = bytes.as_chunks::<4>();
        for (n, word) in words.iter().enumerate().rev() {
            let field = field.saturating_add(n.saturating_mul(4));
            self.memory.word(index, field).store(u32::from_ne_bytes(*word), Ordering::Release);
        }
        self.pass_on(self.at(index, field), bytes)
    }

    /// Copies bytes into the payload of a claimed slot. What would reach beyond the slot is not copied.
    pub(super) fn set_payload(&self, index: usize, offset: usize, bytes: &[u8]) -> bool {
        let room = self.memory.stride.saturating_sub(PAYLOAD);
        if offset.saturating_add(bytes.len()) > room || index >= self.memory.slots {
            return false;
        }
        if self.behind.is_none() {
            self.memory.store(index, offset, bytes);
        }
        self.pass_on(self.at(index, PAYLOAD.saturating_add(offset)), bytes)
    }

    /// Changes one of the file's counters and returns what it was. The last of several threads that do so at a time writes
    /// the latest number.
    pub(super) fn count(&self, field: usize, next: impl Fn(u64) -> u64) -> u64 {
        const ROUNDS: usize = 64;
        let counter = self.memory.counter(field);
        let mut before = counter.load(Ordering::Relaxed);
        while let Err(now) =
            counter.compare_exchange(before, next(before), Ordering::Relaxed, Ordering::Relaxed)
        {
            before = now;
        }
        for _ in 0..if self.behind.is_some() { ROUNDS } else { 0 } {
            let value = counter.load(Ordering::Acquire);
            self.pass_on(COUNTERS.saturating_add(field), &value.to_le_bytes());
            if counter.load(Ordering::Acquire) == value {
                break;
            }
        }
        before
    }

    pub(super) fn counter(&self, field: usize) -> u64 {
        self.memory.counter(field).load(Ordering::Relaxed)
    }

    /// Where a byte of a slot lies in the file.
    fn at(&self, index: usize, offset: usize) -> usize {
        let slot = index.min(self.memory.slots.saturating_sub(1)).saturating_mul(self.memory.stride);
        FIRST_SLOT.saturating_add(slot).saturating_add(offset)
    }

    fn pass_on(&self, at: usize, bytes: &[u8]) -> bool {
        self.behind.is_none_or(|file| (file.write)(file.descriptor, at as u64, bytes))
    }
}
