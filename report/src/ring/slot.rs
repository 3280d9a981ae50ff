//! Claiming, writing and committing slots.

use super::Owner;
use crate::layout::{
    self, COUNTERS, CRASH_SLOT, Counters, FIRST_SLOT, LIVE_CELLS, LiveCell, Outcome, PAYLOAD, RESERVE_SLOT,
    SEALED, SECTION_HEADER, SlotHeader, SlotState,
};
use core::mem::offset_of;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Why a record was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingError {
    /// Every slot holds an unread record. The record was counted as dropped.
    Full,
    /// The record has more bytes than a slot.
    TooLarge,
    /// The file did not take it: cut off on a full disk, say. What it has taken is read as the record of a writer that
    /// has died.
    NotTaken,
}

impl core::fmt::Display for RingError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Full => "every slot of the report file holds an unread record",
            Self::TooLarge => "the record is larger than a slot of the report file",
            Self::NotTaken => "the report file did not take the record: is the disk full?",
        })
    }
}

impl core::error::Error for RingError {}

/// The file behind a ring. Every change of the ring is written to it in the order of the protocol, by the kernel: a store
/// into the pages of a file that somebody cuts off would end the program.
#[derive(Clone, Copy, Debug)]
pub struct Behind {
    /// The file's descriptor.
    pub descriptor: i32,
    /// Writes all of the bytes to the descriptor's file, at that offset; whether it could. Signal-safe.
    pub write: fn(i32, u64, &[u8]) -> bool,
}

/// The slots of a file, for one writing process.
#[derive(Debug)]
pub struct Ring {
    base: NonNull<u8>,
    slots: usize,
    stride: usize,
    owner: Owner,
    behind: Option<Behind>,
}

// SAFETY: all shared words are atomics; a slot's other bytes belong to who claimed it by CAS.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

/// A slot that was claimed, and is this writer's until its record ends.
#[derive(Debug, PartialEq, Eq)]
pub struct Slot {
    index: usize,
    sequence: u64,
    updates: u64,
    /// Where the payload ends, from the slot's start.
    end: usize,
    /// The tail that the next update names.
    tail: Tail,
    /// Where the tail lies that the live cell in force names.
    named: u32,
}

/// Where a record's tail lies, as a live cell says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tail {
    at: u32,
    bytes: u32,
    crc: u32,
}

/// How a record's freeze goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// How long it has lasted, in nanoseconds.
    pub duration_ns: u64,
    /// How it ended, or that it goes on.
    pub outcome: Outcome,
    /// How many later freezes with the same stack this record stands for as well.
    pub repeats: u32,
    /// How long those lasted, in nanoseconds.
    pub repeated_ns: u64,
}

impl Live {
    /// A freeze that stands for itself alone.
    pub const fn new(duration_ns: u64, outcome: Outcome) -> Self {
        Self { duration_ns, outcome, repeats: 0, repeated_ns: 0 }
    }
}

impl Slot {
    /// The record's number in the file.
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl Ring {
    /// The ring in memory from `base` on.
    ///
    /// # Safety
    /// `base` is aligned to a page and stays mapped, readable and writable, for `FIRST_SLOT + slots × stride` bytes
    /// while this value lives; `stride` is a multiple of a page. Other threads and processes touch it only through this
    /// type, or read it.
    pub const unsafe fn new(base: NonNull<u8>, slots: usize, stride: usize, owner: Owner) -> Self {
        Self { base, slots, stride, owner, behind: None }
    }

    /// The same ring in a file. The memory is this process's own then, not the file's. It holds what the file holds in front
    /// of the slots and of their payloads; the payloads are in the file alone.
    pub const fn in_file(self, behind: Behind) -> Self {
        Self { behind: Some(behind), ..self }
    }

    /// Another handle of the same ring.
    #[cfg(feature = "std")]
    pub(crate) const fn again(&self) -> Self {
        Self { ..*self }
    }

    /// The descriptor of the file behind it.
    #[cfg(feature = "std")]
    pub(crate) fn descriptor(&self) -> Option<i32> {
        self.behind.map(|file| file.descriptor)
    }

    /// How many bytes a record can have.
    pub const fn record_bytes(&self) -> usize {
        self.stride.saturating_sub(PAYLOAD)
    }

    /// How many records found no place since the file was made; none if the count was damaged.
    pub fn dropped(&self) -> Option<u32> {
        checked_count(self.counter(offset_of!(Counters, dropped)).load(Ordering::Relaxed))
    }

    fn count_dropped(&self) {
        let counter = self.counter(offset_of!(Counters, dropped));
        let next = |word| {
            let count = checked_count(word).unwrap_or(0).saturating_add(1);
            Some(u64::from(count) | u64::from(!count) << 32)
        };
        let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        self.pass_on_counter(offset_of!(Counters, dropped));
    }

    /// Writes a record as [`encode`](crate::encode::encode) made it, and commits it. The slot that is returned takes
    /// the updates of its live cells.
    ///
    /// # Errors
    /// There is no free slot, it is too small, or the file does not take the record.
    ///
    /// # Signal safety
    /// Safe. Writing to a file can wait for the file system: not while a thread is held.
    pub fn write(&self, record: &[u8]) -> Result<Slot, RingError> {
        if record.len() > self.record_bytes() {
            return Err(RingError::TooLarge);
        }
        self.fill(self.claim()?, record)
    }

    /// Writes a crash's record like [`write`](Self::write), into the slot that is kept for one; if that holds an unread
    /// record, into another.
    ///
    /// # Errors
    /// There is no free slot, it is too small, or the file does not take the record.
    ///
    /// # Signal safety
    /// Safe, as [`write`](Self::write).
    pub fn write_crash(&self, record: &[u8]) -> Result<Slot, RingError> {
        if record.len() > self.record_bytes() {
            return Err(RingError::TooLarge);
        }
        let slot = match self.claim_from(CRASH_SLOT, SlotState::Empty) {
            None => self.claim_from(CRASH_SLOT, SlotState::Consumed),
            claimed => claimed,
        };
        let slot = slot.map_or_else(|| self.claim(), |index| self.begin(index))?;
        self.fill(slot, record)
    }

    fn fill(&self, mut slot: Slot, record: &[u8]) -> Result<Slot, RingError> {
        let mut rest = record;
        let mut copied = 0usize;
        while let Some((section, after)) = first_section(rest) {
            let mut taken = self.store(&slot, PAYLOAD.saturating_add(copied), section);
            if taken {
                copied = copied.saturating_add(section.len());
                taken = self.set_slot_word(slot.index, offset_of!(SlotHeader, valid_bytes), copied as u32);
            }
            if !taken {
                return self.give_up(slot.index);
            }
            rest = after;
        }
        if self.commit(&slot, record.get(..copied).unwrap_or(&[])) {
            slot.end = PAYLOAD.saturating_add(copied);
            Ok(slot)
        } else {
            self.give_up(slot.index)
        }
    }

    /// Leaves a slot whose record the file did not take. If a part of that can be read, it stays.
    fn give_up(&self, index: usize) -> Result<Slot, RingError> {
        if self.slot_word(index, offset_of!(SlotHeader, valid_bytes)).load(Ordering::Relaxed) == 0 {
            self.set_slot_word(index, offset_of!(SlotHeader, state), SlotState::Consumed as u32);
        }
        Err(RingError::NotTaken)
    }

    /// Notes how a record's freeze goes on.
    ///
    /// # Signal safety
    /// Safe, as [`write`](Self::write).
    pub fn update(&self, slot: &mut Slot, live: Live) {
        slot.updates = slot.updates.saturating_add(1);
        let mut cell = [0u8; size_of::<LiveCell>()];
        put(&mut cell, offset_of!(LiveCell, update), &slot.updates.to_le_bytes());
        put(&mut cell, offset_of!(LiveCell, sequence), &slot.sequence.to_le_bytes());
        put(&mut cell, offset_of!(LiveCell, duration_ns), &live.duration_ns.to_le_bytes());
        put(&mut cell, offset_of!(LiveCell, outcome), &(live.outcome as u32).to_le_bytes());
        put(&mut cell, offset_of!(LiveCell, tail_at), &slot.tail.at.to_le_bytes());
        put(&mut cell, offset_of!(LiveCell, tail_bytes), &slot.tail.bytes.to_le_bytes());
        put(&mut cell, offset_of!(LiveCell, tail_crc), &slot.tail.crc.to_le_bytes());
        put(&mut cell, offset_of!(LiveCell, repeated_ns), &live.repeated_ns.to_le_bytes());
        put(&mut cell, offset_of!(LiveCell, repeats), &live.repeats.to_le_bytes());
        seal(&mut cell, 0);
        let [even, odd] = LIVE_CELLS;
        self.store(slot, if slot.updates.is_multiple_of(2) { even } else { odd }, &cell);
        slot.named = slot.tail.at;
    }

    /// Whether a slot still holds the record that it was claimed for: the reserve's gives way to a later one.
    pub fn holds(&self, slot: &Slot) -> bool {
        let state = self.slot_word(slot.index, offset_of!(SlotHeader, state)).load(Ordering::Acquire);
        state == SlotState::Committed as u32 && self.sequence_of(slot.index) == slot.sequence
    }

    /// How many bytes a record's tail can have: behind the payload there are two places for it.
    pub const fn tail_room(&self, slot: &Slot) -> usize {
        (self.stride.saturating_sub(slot.end) / 2) & !63
    }

    /// Stores what is known by now of a record's freeze: sections, as [`encode_tail`](crate::encode::encode_tail) makes them.
    /// They are the record's with the next [`update`](Self::update); until then those stored before are. False if there is no
    /// room for so many, or the file does not take them.
    ///
    /// # Signal safety
    /// Safe, as [`write`](Self::write).
    pub fn store_tail(&self, slot: &mut Slot, sections: &[u8]) -> bool {
        let room = self.tail_room(slot);
        if sections.len() > room {
            return false;
        }
        // Into the place that the live cell in force does not name.
        let second = self.stride.saturating_sub(room);
        let first = second.saturating_sub(room);
        let at = if slot.named as usize == first { second } else { first };
        if !self.store(slot, at, sections) {
            return false;
        }
        let (at, bytes) = (at as u32, sections.len() as u32);
        slot.tail = Tail { at, bytes, crc: layout::crc(&[sections]) };
        true
    }

    /// Frees the slot of a committed or abandoned record that was read. False if it holds another record by now.
    pub fn consume(&self, index: usize, sequence: u64) -> bool {
        if index >= self.slots || self.sequence_of(index) != sequence {
            return false;
        }
        self.hide_payload(index);
        let from = [SlotState::Committed, SlotState::Writing];
        from.into_iter().any(|from| self.exchange_state(index, from, SlotState::Consumed))
    }

    /// Frees a slot whatever it holds: a record that is too damaged to be told by its number.
    pub fn clear(&self, index: usize) {
        if index < self.slots {
            self.hide_payload(index);
            self.set_slot_word(index, offset_of!(SlotHeader, state), SlotState::Consumed as u32);
        }
    }

    /// Frees the slots whose writer has died before anything of its record could be read: nobody else would. Only while
    /// no other writer can have claimed one.
    pub fn reclaim(&self) {
        for index in 0..self.slots {
            if self.slot_word(index, offset_of!(SlotHeader, valid_bytes)).load(Ordering::Acquire) == 0 {
                self.exchange_state(index, SlotState::Writing, SlotState::Consumed);
            }
        }
    }

    fn claim(&self) -> Result<Slot, RingError> {
        let claim = |index, from| self.claim_from(index, from);
        let general = RESERVE_SLOT.saturating_add(1)..self.slots;
        let free = |index| claim(index, SlotState::Empty).or_else(|| claim(index, SlotState::Consumed));
        let found = general.into_iter().find_map(free).or_else(|| free(RESERVE_SLOT));
        // The reserve slot's record gives way to a later one, once its freeze is over.
        let found = found.or_else(|| {
            let over = self.latest_outcome(RESERVE_SLOT) != Some(Outcome::Ongoing as u32)
                || !self.written_by_owner(RESERVE_SLOT);
            let taken = over.then(|| claim(RESERVE_SLOT, SlotState::Committed)).flatten();
            self.count_dropped();
            taken
        });
        self.begin(found.ok_or(RingError::Full)?)
    }

    /// Claims a slot if it is in that state.
    fn claim_from(&self, index: usize, from: SlotState) -> Option<usize> {
        if from == SlotState::Committed {
            // What a dead writer has left of a record is not committed, and stays.
            let state = self.slot_word(index, offset_of!(SlotHeader, state));
            if state.load(Ordering::Relaxed) != from as u32 {
                return None;
            }
            self.hide_payload(index);
        }
        self.exchange_state(index, from, SlotState::Writing).then_some(index)
    }

    /// Changes a slot's state if it is the one that is expected.
    fn exchange_state(&self, index: usize, from: SlotState, to: SlotState) -> bool {
        let field = offset_of!(SlotHeader, state);
        let word = self.slot_word(index, field);
        let swapped =
            word.compare_exchange(from as u32, to as u32, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if swapped {
            self.pass_on(self.slot_at(index).saturating_add(field), &(to as u32).to_le_bytes());
        }
        swapped
    }

    /// Begins the next record in a slot that was claimed.
    fn begin(&self, index: usize) -> Result<Slot, RingError> {
        let counter = self.counter(offset_of!(Counters, sequence));
        let sequence = counter.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.pass_on_counter(offset_of!(Counters, sequence));
        let slot = Slot { index, sequence, updates: 0, end: PAYLOAD, tail: Tail::default(), named: 0 };

        let mut taken = self.store_header(&slot, self.header(&slot));
        // The old record's cells must not speak for the new one.
        for cell in LIVE_CELLS {
            taken &= self.store(&slot, cell, &[0; size_of::<LiveCell>()]);
        }
        if taken { Ok(slot) } else { self.give_up(index) }
    }

    /// A slot's header before the commit, without its checksum.
    fn header(&self, slot: &Slot) -> [u8; size_of::<SlotHeader>()] {
        let mut header = [0u8; size_of::<SlotHeader>()];
        put(&mut header, offset_of!(SlotHeader, pid), &self.owner.pid.to_le_bytes());
        put(&mut header, offset_of!(SlotHeader, sequence), &slot.sequence.to_le_bytes());
        put(&mut header, offset_of!(SlotHeader, start_ticks), &self.owner.start_ticks.to_le_bytes());
        put(&mut header, offset_of!(SlotHeader, boot_id), &self.owner.boot_id);
        header
    }

    fn commit(&self, slot: &Slot, payload: &[u8]) -> bool {
        let mut header = self.header(slot);
        put(&mut header, offset_of!(SlotHeader, payload_bytes), &(payload.len() as u32).to_le_bytes());
        put(&mut header, offset_of!(SlotHeader, payload_crc), &layout::crc(&[payload]).to_le_bytes());
        self.store_header(slot, header)
            && self.set_slot_word(slot.index, offset_of!(SlotHeader, state), SlotState::Committed as u32)
    }

    /// The sealed part: the state and the count of valid bytes change by themselves.
    fn store_header(&self, slot: &Slot, mut header: [u8; size_of::<SlotHeader>()]) -> bool {
        seal(&mut header, SEALED);
        self.store(slot, SEALED, header.get(SEALED..).unwrap_or(&[]))
    }

    /// Before a slot becomes free to claim: a writer that dies right after its claim must not leave the old payload
    /// behind as the valid part of a new one. A committed record is read by its length, so it stays readable.
    fn hide_payload(&self, index: usize) {
        self.set_slot_word(index, offset_of!(SlotHeader, valid_bytes), 0);
    }

    fn sequence_of(&self, index: usize) -> u64 {
        let low = self.slot_word(index, offset_of!(SlotHeader, sequence)).load(Ordering::Acquire);
        let high = self.slot_word(index, offset_of!(SlotHeader, sequence) + 4).load(Ordering::Acquire);
        u64::from(high) << 32 | u64::from(low)
    }

    fn written_by_owner(&self, index: usize) -> bool {
        let ticks = self.slot_word(index, offset_of!(SlotHeader, start_ticks)).load(Ordering::Relaxed);
        let pid = self.slot_word(index, offset_of!(SlotHeader, pid)).load(Ordering::Relaxed);
        (pid, ticks) == (self.owner.pid, self.owner.start_ticks as u32)
    }

    /// The outcome in the newer of a slot's live cells.
    fn latest_outcome(&self, index: usize) -> Option<u32> {
        let word = |cell: usize, field: usize| {
            self.slot_word(index, cell.saturating_add(field)).load(Ordering::Relaxed)
        };
        let newest = LIVE_CELLS.into_iter().max_by_key(|cell| word(*cell, offset_of!(LiveCell, update)))?;
        Some(word(newest, offset_of!(LiveCell, outcome)))
    }

    fn counter(&self, field: usize) -> &AtomicU64 {
        // SAFETY: the counters lie in the first page, aligned; `new`'s caller vouches for the mapping.
        unsafe { self.base.add(COUNTERS).add(field).cast().as_ref() }
    }

    /// Where a slot begins, in the memory as in the file.
    fn slot_at(&self, index: usize) -> usize {
        FIRST_SLOT.saturating_add(index.min(self.slots.saturating_sub(1)).saturating_mul(self.stride))
    }

    /// A word of a slot's first page. `index` is below the number of slots and `offset` below a page.
    fn slot_word(&self, index: usize, offset: usize) -> &AtomicU32 {
        let offset = offset.min(PAYLOAD) & !3;
        // SAFETY: this is the start of a slot, which has at least a page; `new`'s caller vouches for the memory.
        unsafe { self.base.add(self.slot_at(index)).add(offset).cast().as_ref() }
    }

    /// Sets such a word; whether the file has taken it.
    fn set_slot_word(&self, index: usize, offset: usize, value: u32) -> bool {
        self.slot_word(index, offset).store(value, Ordering::Release);
        self.pass_on(self.slot_at(index).saturating_add(offset), &value.to_le_bytes())
    }

    /// Copies bytes into a claimed slot; whether they are in the file. What would reach beyond the slot is not copied.
    fn store(&self, slot: &Slot, offset: usize, bytes: &[u8]) -> bool {
        if offset.saturating_add(bytes.len()) > self.stride || slot.index >= self.slots {
            return false;
        }
        let at = self.slot_at(slot.index).saturating_add(offset);
        if self.behind.is_none() || offset < PAYLOAD {
            // SAFETY: inside the slot, as checked; the slot is this writer's, and `bytes` is no part of the memory.
            unsafe { self.base.add(at).as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        self.pass_on(at, bytes)
    }

    /// Writes what was changed in memory to the file, if there is one.
    fn pass_on(&self, at: usize, bytes: &[u8]) -> bool {
        self.behind.is_none_or(|file| (file.write)(file.descriptor, at as u64, bytes))
    }

    /// The same for a counter, which several threads may change at a time: the last to write it writes the latest number.
    fn pass_on_counter(&self, field: usize) {
        const ROUNDS: usize = 64;
        let counter = self.counter(field);
        for _ in 0..ROUNDS {
            let value = counter.load(Ordering::Acquire);
            self.pass_on(COUNTERS.saturating_add(field), &value.to_le_bytes());
            if counter.load(Ordering::Acquire) == value {
                return;
            }
        }
    }
}

const _: () = assert!(CRASH_SLOT == 0 && RESERVE_SLOT == 1, "claim() takes the slots behind these two");

/// The number in a count that is stored below its complement; none if they do not fit. All zero is zero.
pub(crate) const fn checked_count(word: u64) -> Option<u32> {
    let (count, complement) = (word as u32, (word >> 32) as u32);
    if word == 0 || count == !complement { Some(count) } else { None }
}

/// The first section of a record and what follows it.
fn first_section(record: &[u8]) -> Option<(&[u8], &[u8])> {
    let length: [u8; 4] = *record.get(4..)?.first_chunk()?;
    let end = SECTION_HEADER.checked_add(u32::from_le_bytes(length) as usize)?;
    record.split_at_checked(end)
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(room) = out.get_mut(at..).and_then(|room| room.get_mut(..bytes.len())) {
        room.copy_from_slice(bytes);
    }
}

/// Puts the checksum of the bytes from `from` on into the last four.
fn seal(out: &mut [u8], from: usize) {
    let end = out.len().saturating_sub(size_of::<u32>());
    let crc = layout::crc(&[out.get(from..end).unwrap_or(&[])]);
    put(out, end, &crc.to_le_bytes());
}
