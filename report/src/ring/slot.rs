//! Claiming, writing and committing slots.

use super::memory::Memory;
use super::store::{Behind, Store};
use super::{Owner, RingError};
use crate::layout::{
    self, CRASH_SLOT, Counters, LIVE_CELLS, LiveCell, Outcome, PAYLOAD, RESERVE_SLOT, SEALED, SECTION_HEADER,
    SlotHeader, SlotState,
};
use core::mem::offset_of;
use core::ptr::NonNull;

/// The slots of a file, for one writing process.
#[derive(Debug)]
pub struct Ring {
    store: Store,
    owner: Owner,
}

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
    /// How long the latest of them has lasted by now, as part of that, while it goes on; zero: none does. The outcome is that it goes on,
    /// then.
    pub repeating_ns: u64,
}

impl Live {
    /// A freeze that stands for itself alone.
    pub const fn new(duration_ns: u64, outcome: Outcome) -> Self {
        Self { duration_ns, outcome, repeats: 0, repeated_ns: 0, repeating_ns: 0 }
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
        // SAFETY: the caller's contract.
        let memory = unsafe { Memory::new(base, slots, stride) };
        Self { store: Store { memory, behind: None }, owner }
    }

    /// The same ring in a file. The memory is this process's own then, not the file's. It holds what the file holds in front
    /// of the slots and of their payloads; the payloads are in the file alone.
    pub fn in_file(self, behind: Behind) -> Self {
        Self { store: Store { behind: Some(behind), ..self.store }, owner: self.owner }
    }

    /// Another handle of the same ring.
    #[cfg(feature = "std")]
    pub(crate) fn again(&self) -> Self {
        Self {
            store: Store { memory: self.store.memory.again(), behind: self.store.behind },
            owner: self.owner,
        }
    }

    /// The descriptor of the file behind it.
    #[cfg(feature = "std")]
    pub(crate) fn descriptor(&self) -> Option<i32> {
        self.store.behind.map(|file| file.descriptor)
    }

    /// How many bytes a record can have.
    pub const fn record_bytes(&self) -> usize {
        self.store.memory.stride.saturating_sub(PAYLOAD)
    }

    /// How many records found no place since the file was made; none if the count was damaged.
    pub fn dropped(&self) -> Option<u32> {
        checked_count(self.store.counter(offset_of!(Counters, dropped)))
    }

    fn count_dropped(&self) {
        self.store.count(offset_of!(Counters, dropped), |word| {
            let count = checked_count(word).unwrap_or(0).saturating_add(1);
            u64::from(count) | u64::from(!count) << 32
        });
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
            let mut taken = self.store.set_payload(slot.index, copied, section);
            if taken {
                copied = copied.saturating_add(section.len());
                taken = self.store.set_word(slot.index, offset_of!(SlotHeader, valid_bytes), copied as u32);
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
        if self.store.word(index, offset_of!(SlotHeader, valid_bytes)) == 0 {
            self.store.set_state(index, SlotState::Consumed);
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
        put(&mut cell, offset_of!(LiveCell, repeating_ns), &live.repeating_ns.to_le_bytes());
        seal(&mut cell, 0);
        let [even, odd] = LIVE_CELLS;
        self.store.set_words(slot.index, if slot.updates.is_multiple_of(2) { even } else { odd }, &cell);
        slot.named = slot.tail.at;
    }

    /// Whether a slot whose record's freeze is over keeps it, so that it may still be updated. The reserve's does not: it may give
    /// way to a later record at any moment.
    pub fn holds(&self, slot: &Slot) -> bool {
        slot.index != RESERVE_SLOT
            && self.store.word(slot.index, offset_of!(SlotHeader, state)) == SlotState::Committed as u32
            && self.sequence_of(slot.index) == slot.sequence
    }

    /// How many bytes a record's tail can have: behind the payload there are two places for it.
    pub const fn tail_room(&self, slot: &Slot) -> usize {
        (self.store.memory.stride.saturating_sub(slot.end) / 2) & !63
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
        let second = self.store.memory.stride.saturating_sub(room);
        let first = second.saturating_sub(room);
        let at = if slot.named as usize == first { second } else { first };
        if !self.store.set_payload(slot.index, at.saturating_sub(PAYLOAD), sections) {
            return false;
        }
        let (at, bytes) = (at as u32, sections.len() as u32);
        slot.tail = Tail { at, bytes, crc: layout::crc(&[sections]) };
        true
    }

    /// Frees the slot of a committed or abandoned record that was read. False if it holds another record. Not while other threads
    /// write to the file.
    pub fn consume(&self, index: usize, sequence: u64) -> bool {
        if index >= self.store.memory.slots || self.sequence_of(index) != sequence {
            return false;
        }
        self.hide_payload(index);
        let from = [SlotState::Committed, SlotState::Writing];
        from.into_iter().any(|from| self.store.exchange_state(index, from, SlotState::Consumed))
    }

    /// Frees a slot whatever it holds: a record that is too damaged to be told by its number. Not while other threads write
    /// to the file.
    pub fn clear(&self, index: usize) {
        if index < self.store.memory.slots {
            self.hide_payload(index);
            self.store.set_state(index, SlotState::Consumed);
        }
    }

    /// Frees the slots whose writer has died before anything of its record could be read: nobody else would. Only while
    /// no other writer can have claimed one.
    pub fn reclaim(&self) {
        for index in 0..self.store.memory.slots {
            if self.store.word(index, offset_of!(SlotHeader, valid_bytes)) == 0 {
                self.store.exchange_state(index, SlotState::Writing, SlotState::Consumed);
            }
        }
    }

    fn claim(&self) -> Result<Slot, RingError> {
        let claim = |index, from| self.claim_from(index, from);
        let general = RESERVE_SLOT.saturating_add(1)..self.store.memory.slots;
        let free = |index| claim(index, SlotState::Empty).or_else(|| claim(index, SlotState::Consumed));
        let found = general.into_iter().find_map(free).or_else(|| free(RESERVE_SLOT));
        let found = found.or_else(|| {
            self.count_dropped();
            self.take_over(RESERVE_SLOT)
        });
        self.begin(found.ok_or(RingError::Full)?)
    }

    /// Claims a slot if it is in that state, of no unread record.
    fn claim_from(&self, index: usize, from: SlotState) -> Option<usize> {
        self.store.exchange_state(index, from, SlotState::Writing).then_some(index)
    }

    /// Claims the slot of an unread record, which gives way to a later one once its freeze is over. What a dead writer has
    /// left of a record is not committed, and stays.
    fn take_over(&self, index: usize) -> Option<usize> {
        let gives_way = || self.is_over(index) || !self.written_by_owner(index);
        if !gives_way() || self.claim_from(index, SlotState::Committed).is_none() {
            return None;
        }
        // Again, now that no other writer can change it: what was asked about may have been another record, or half of one.
        if !gives_way() {
            self.store.set_state(index, SlotState::Committed);
            return None;
        }
        // Not before: until then it may be another writer's, who publishes its own. One who dies here leaves the old record,
        // whose header and payload are still whole.
        self.hide_payload(index);
        Some(index)
    }

    /// Begins the next record in a slot that was claimed.
    fn begin(&self, index: usize) -> Result<Slot, RingError> {
        let sequence = self.store.count(offset_of!(Counters, sequence), |number| number.wrapping_add(1));
        let sequence = sequence.wrapping_add(1);
        let slot = Slot { index, sequence, updates: 0, end: PAYLOAD, tail: Tail::default(), named: 0 };

        let mut taken = self.store_header(&slot, self.header(&slot));
        // The old record's cells must not speak for the new one.
        for cell in LIVE_CELLS {
            taken &= self.store.set_words(index, cell, &[0; size_of::<LiveCell>()]);
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
        self.store_header(slot, header) && self.store.set_state(slot.index, SlotState::Committed)
    }

    /// The sealed part: the state and the count of valid bytes change by themselves.
    fn store_header(&self, slot: &Slot, mut header: [u8; size_of::<SlotHeader>()]) -> bool {
        seal(&mut header, SEALED);
        self.store.set_words(slot.index, SEALED, header.get(SEALED..).unwrap_or(&[]))
    }

    /// Before a slot becomes free to claim: a writer that dies right after its claim must not leave the old payload
    /// behind as the valid part of a new one. A committed record is read by its length, so it stays readable.
    fn hide_payload(&self, index: usize) {
        self.store.set_word(index, offset_of!(SlotHeader, valid_bytes), 0);
    }

    fn sequence_of(&self, index: usize) -> u64 {
        let low = self.store.word(index, offset_of!(SlotHeader, sequence));
        let high = self.store.word(index, offset_of!(SlotHeader, sequence) + 4);
        u64::from(high) << 32 | u64::from(low)
    }

    fn written_by_owner(&self, index: usize) -> bool {
        let ticks = self.store.word(index, offset_of!(SlotHeader, start_ticks));
        let pid = self.store.word(index, offset_of!(SlotHeader, pid));
        (pid, ticks) == (self.owner.pid, self.owner.start_ticks as u32)
    }

    /// Whether a record's last update has been made, and is in the memory as a whole: its writer touches it no more. Before
    /// the first update its freeze goes on.
    fn is_over(&self, index: usize) -> bool {
        let word = |cell: usize, field: usize| self.store.word(index, cell.saturating_add(field));
        let update = |cell: usize| word(cell, offset_of!(LiveCell, update));
        let newest = LIVE_CELLS.into_iter().map(|cell| (update(cell), cell)).max();
        newest.is_some_and(|(update, cell)| {
            update > 0 && word(cell, offset_of!(LiveCell, outcome)) != Outcome::Ongoing as u32
        })
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

#[cfg(all(test, explored))]
mod races;
