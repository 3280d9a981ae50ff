//! One slot: its header, its live cells, and as much of its payload as can be believed.

use super::cursor::Cursor;
use super::record::Repeats;
use crate::layout::{
    self, LIVE_CELLS, LiveCell, Outcome, PAYLOAD, SEALED, SECTION_HEADER, Section, SlotHeader, SlotState,
};
use crate::ring::Owner;
use core::mem::offset_of;

/// A slot that holds something.
#[derive(Debug)]
pub(super) struct Slot<'a> {
    pub(super) state: SlotState,
    pub(super) sequence: u64,
    pub(super) owner: Owner,
    /// The sections whose checksums are right, in order, up to the first that is not.
    pub(super) sections: Vec<(Section, &'a [u8])>,
    /// The newest live cell.
    pub(super) live: Option<Live>,
    /// What is wrong, in words.
    pub(super) faults: Vec<String>,
}

/// What a live cell says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    update: u64,
    pub(super) duration_ns: u64,
    pub(super) outcome: Outcome,
    pub(super) repeats: Repeats,
    tail: Tail,
}

/// Where a record's tail lies: from the slot's start on, so many bytes, with this checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    at: u32,
    bytes: u32,
    crc: u32,
}

impl Tail {
    /// Where it lies in the slot; none if it lies nowhere.
    pub(super) fn range(self) -> Option<std::ops::Range<usize>> {
        let start = self.at as usize;
        (start >= PAYLOAD && self.bytes > 0).then(|| start..start.saturating_add(self.bytes as usize))
    }

    pub(super) fn is_right(self, tail: &[u8]) -> bool {
        tail.len() == self.bytes as usize && layout::crc(&[tail]) == self.crc
    }
}

/// Where the newest live cell of a slot says that the tail lies.
pub(super) fn tail_of(slot: &[u8]) -> Option<Tail> {
    let cells = LIVE_CELLS.iter().filter_map(|at| live_cell(slot.get(*at..)?.get(..size_of::<LiveCell>())?));
    let newest = cells.max_by_key(|(_, live)| live.update)?;
    Some(newest.1.tail).filter(|tail| tail.range().is_some())
}

/// State and sequence: a slot in which both are the same before and after it was copied was copied whole.
pub(super) fn stamp(slot: &[u8]) -> Option<(u32, u64)> {
    let mut cursor = Cursor(slot);
    let state = cursor.u32()?;
    cursor.u32()?;
    Some((state, cursor.u64()?))
}

/// How many bytes of payload a slot's header speaks of, whatever its state.
pub(super) fn payload_bytes(slot: &[u8]) -> usize {
    let word = |at: usize| slot.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word));
    let state = word(offset_of!(SlotHeader, state)).and_then(SlotState::from_code);
    let length = match state {
        Some(SlotState::Committed) => word(offset_of!(SlotHeader, payload_bytes)),
        Some(SlotState::Writing) => word(offset_of!(SlotHeader, valid_bytes)),
        _ => None,
    };
    length.unwrap_or(0) as usize
}

/// Reads a copy of a slot.
///
/// `Ok(None)`: it holds no unread record. `Err`: it holds something, of which nothing can be believed.
pub(super) fn read<'a>(slot: &'a [u8], tail: &'a [u8]) -> Result<Option<Slot<'a>>, String> {
    let header = slot.get(..size_of::<SlotHeader>()).ok_or("it is too short")?;
    let mut cursor = Cursor(header);
    let mut fields = || {
        let (state, valid_bytes) = (cursor.u32()?, cursor.u32()?);
        let (sequence, start_ticks, boot_id) = (cursor.u64()?, cursor.u64()?, cursor.array()?);
        let (pid, payload_bytes, payload_crc) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
        cursor.take(8)?;
        let owner = Owner { pid, start_ticks, boot_id };
        Some((state, valid_bytes, sequence, owner, payload_bytes, payload_crc, cursor.u32()?))
    };
    let (state, valid_bytes, sequence, owner, payload_bytes, payload_crc, crc) =
        fields().ok_or("it is too short")?;
    let state = match SlotState::from_code(state) {
        Some(SlotState::Empty | SlotState::Consumed) => return Ok(None),
        Some(state) => state,
        None => return Err(format!("its state is {state}, which is none")),
    };
    // Claimed, and nothing of it is complete.
    if state == SlotState::Writing && valid_bytes == 0 {
        return Ok(None);
    }
    if layout::crc(&[&header[SEALED..offset_of!(SlotHeader, crc)]]) != crc {
        return Err("its header is damaged".into());
    }
    let mut faults = Vec::new();
    let length = match state {
        SlotState::Committed => payload_bytes,
        _ => {
            faults.push("its writer did not finish it".to_owned());
            valid_bytes
        }
    };
    let payload = match slot.get(PAYLOAD..).and_then(|payload| payload.get(..length as usize)) {
        Some(payload) => payload,
        None => {
            faults.push(format!("it says that it has {length} bytes, more than its slot"));
            slot.get(PAYLOAD..).unwrap_or(&[])
        }
    };
    if state == SlotState::Committed && layout::crc(&[payload]) != payload_crc {
        faults.push("its payload is damaged".into());
    }
    let mut found = sections(payload, &mut faults);
    let live = newest_live_cell(slot, sequence, &mut faults);
    match live.map(|live| live.tail).filter(|tail| tail.bytes > 0) {
        None => {}
        Some(place) if place.is_right(tail) => found.extend(sections(tail, &mut faults)),
        Some(_) => faults.push("what became known of it later is damaged".into()),
    }
    let sections = found;
    Ok(Some(Slot { state, sequence, owner, sections, live, faults }))
}

fn sections<'a>(payload: &'a [u8], faults: &mut Vec<String>) -> Vec<(Section, &'a [u8])> {
    let mut sections = Vec::new();
    let mut rest = payload;
    while !rest.is_empty() {
        let Some((kind, body, after)) = first_section(rest) else {
            faults.push(format!("section {} is damaged or cut off", sections.len() + 1));
            break;
        };
        // A section of a later minor version is skipped.
        if let Some(section) = Section::from_code(kind) {
            sections.push((section, body));
        }
        rest = after;
    }
    sections
}

fn first_section(bytes: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let mut cursor = Cursor(bytes);
    let (kind, length, crc) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
    let body = cursor.take(length as usize)?;
    let head = &bytes[..SECTION_HEADER - 4];
    (layout::crc(&[head, body]) == crc).then_some((kind, body, cursor.0))
}

/// The newer of the two cells. A damaged cell may have been the newer one: that is a fault.
fn newest_live_cell(slot: &[u8], sequence: u64, faults: &mut Vec<String>) -> Option<Live> {
    let cells = LIVE_CELLS.map(|at| slot.get(at..at + size_of::<LiveCell>()).unwrap_or(&[]));
    let mut newest: Option<Live> = None;
    let mut updates = Vec::new();
    for cell in cells {
        if cell.iter().all(|byte| *byte == 0) {
            updates.push(0);
            continue;
        }
        let Some(live) = live_cell(cell).and_then(|(of, live)| (of == sequence).then_some(live)) else {
            faults.push("a note of its duration is damaged".into());
            continue;
        };
        updates.push(live.update);
        if newest.is_none_or(|newer| live.update > newer.update) {
            newest = Some(live);
        }
    }
    if let [one, other] = updates[..]
        && one.abs_diff(other) > 1
    {
        faults.push("a note of its duration is missing".into());
    }
    newest
}

/// The record's number that a cell is for, and what it says. None if it is damaged.
fn live_cell(cell: &[u8]) -> Option<(u64, Live)> {
    const CRC: usize = offset_of!(LiveCell, crc);
    let mut cursor = Cursor(cell);
    let (update, of, duration_ns, outcome) = (cursor.u64()?, cursor.u64()?, cursor.u64()?, cursor.u32()?);
    let tail = Tail { at: cursor.u32()?, bytes: cursor.u32()?, crc: cursor.u32()? };
    let repeated_ns = cursor.u64()?;
    let (count, repeating_ns) = (cursor.u32()?, cursor.u64()?);
    let repeats = Repeats { count, duration_ns: repeated_ns, repeating_ns };
    let crc = u32::from_le_bytes(cell.get(CRC..)?.try_into().ok()?);
    let live = Live { update, duration_ns, outcome: Outcome::from_code(outcome)?, repeats, tail };
    (layout::crc(&[&cell[..CRC]]) == crc).then_some((of, live))
}
