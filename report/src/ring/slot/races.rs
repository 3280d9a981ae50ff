//! Every order of writers, and of a reader of what they have written.

extern crate std;
use super::*;
use core::sync::atomic::Ordering;
use freezeframe_races::{explore, loom::thread};
use std::sync::Arc;
use std::vec::Vec;

const OWNER: Owner = Owner { pid: 7, start_ticks: 8, boot_id: [9; 16] };
/// A section of 16 bytes.
const SECTION: usize = SECTION_HEADER + 4;
const RECORD: usize = 2 * SECTION;

fn ring() -> Arc<Ring> {
    // SAFETY: the model has memory of its own.
    let ring = unsafe { Ring::new(NonNull::dangling(), 3, PAYLOAD + RECORD, OWNER) };
    // Makes it, before there are threads.
    assert_eq!(ring.dropped(), Some(0));
    Arc::new(ring)
}

/// Two sections that are filled with a number.
fn record(n: u8) -> Vec<u8> {
    let mut section = [n; SECTION];
    section[4..8].copy_from_slice(&4u32.to_le_bytes());
    section.repeat(2)
}

fn word(ring: &Ring, index: usize, field: usize) -> u32 {
    ring.store.memory.word(index, field).load(Ordering::Acquire)
}

#[test]
fn a_reader_sees_whole_sections_and_whole_records() {
    explore("ring: a reader sees what was published", Some(3), || {
        let ring = ring();
        let writer = ring.clone();
        let writing = thread::spawn(move || drop(writer.write(&record(5)).unwrap()));
        const GENERAL: usize = 2;
        let state = word(&ring, GENERAL, offset_of!(SlotHeader, state));
        let length = match state {
            _ if state == SlotState::Committed as u32 => {
                assert_eq!(ring.sequence_of(GENERAL), 1);
                assert_eq!(
                    word(&ring, GENERAL, offset_of!(SlotHeader, payload_crc)),
                    layout::crc(&[&record(5)])
                );
                word(&ring, GENERAL, offset_of!(SlotHeader, payload_bytes)) as usize
            }
            _ if state == SlotState::Writing as u32 => {
                word(&ring, GENERAL, offset_of!(SlotHeader, valid_bytes)) as usize
            }
            _ => 0,
        };
        if state == SlotState::Committed as u32 {
            assert_eq!(length, RECORD);
        }
        let mut found = [0; RECORD];
        ring.store.memory.load(GENERAL, 0, &mut found[..length]);
        assert_eq!(found[..length], record(5)[..length]);
        writing.join().unwrap();
    });
}

#[test]
fn two_writers_get_slots_and_numbers_of_their_own() {
    explore("ring: two writers", Some(2), || {
        let ring = ring();
        let other = ring.clone();
        let second = thread::spawn(move || other.write(&record(2)).unwrap());
        let first = ring.write(&record(1)).unwrap();
        let second = second.join().unwrap();
        assert!(first.index != second.index && first.sequence != second.sequence);
        for (slot, n) in [(first, 1), (second, 2)] {
            let mut found = [0; RECORD];
            ring.store.memory.load(slot.index, 0, &mut found);
            assert_eq!((&found[..], ring.sequence_of(slot.index)), (&record(n)[..], slot.sequence));
        }
        assert_eq!(ring.dropped(), Some(0));
    });
}

#[test]
fn the_reserve_is_taken_from_nobody_who_still_writes_to_it() {
    explore("ring: the reserve gives way when it is over", Some(2), || {
        let ring = ring();
        let full = ring.write(&record(9)).unwrap();
        assert_eq!(full.index, 2);
        let other = ring.clone();
        let first = thread::spawn(move || {
            let Ok(mut slot) = other.write(&record(1)) else { return };
            other.update(&mut slot, Live::new(300, Outcome::Ongoing));
            other.update(&mut slot, Live::new(400, Outcome::Recovered));
        });
        // Claims it before the first one, or after that is over, or not at all.
        let second = ring.write(&record(2));
        first.join().unwrap();
        if let Ok(slot) = second {
            let mut found = [0; RECORD];
            ring.store.memory.load(slot.index, 0, &mut found);
            assert_eq!((&found[..], ring.sequence_of(slot.index)), (&record(2)[..], slot.sequence));
            let valid = word(&ring, slot.index, offset_of!(SlotHeader, valid_bytes));
            assert_eq!(valid as usize, RECORD, "hidden by another");
            for cell in LIVE_CELLS {
                let of = word(&ring, slot.index, cell + offset_of!(LiveCell, sequence));
                assert_eq!(of, 0, "the first one's update is in the second one's slot");
            }
        }
        assert!(ring.dropped().is_some_and(|dropped| dropped <= 1));
    });
}

#[test]
fn a_count_of_what_was_dropped_misses_nothing() {
    explore("ring: two find no place", Some(3), || {
        let ring = ring();
        let (full, reserve) = (ring.write(&record(9)).unwrap(), ring.write(&record(8)).unwrap());
        assert_eq!((full.index, reserve.index), (2, 1));
        let other = ring.clone();
        let second = thread::spawn(move || other.write(&record(1)).is_err());
        assert_eq!(ring.write(&record(2)), Err(RingError::Full));
        assert!(second.join().unwrap());
        assert_eq!(ring.dropped(), Some(2));
    });
}
