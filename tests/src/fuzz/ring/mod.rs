//! Steps of writers that die at any of their writes, and of readers: whatever was committed reads back bit for bit, whatever
//! was not is no more than the sections that were written, and nothing else is ever seen.

mod model;
mod store;

use super::source::Source;
use freezeframe_report::layout::{FIRST_SLOT, Outcome};
use freezeframe_report::ring::{Live, Slot};
use model::Model;
use store::{Process, Store, until};

const SLOTS: usize = 5;
const STRIDE: usize = 8192;
const BYTES: usize = FIRST_SLOT + SLOTS * STRIDE;

/// Steps of four bytes: what happens, with which number, and at which write the process dies; none: it lives on. The
/// uppermost bit: in the middle of that.
pub fn ring(bytes: &[u8]) {
    thread_local! {
        static STORE: Store = Store::new();
    }
    STORE.with(|store| {
        store.clear();
        let mut source = Source(bytes);
        let process = Process::begin(store, 1);
        let mut world = World { store, model: Model::default(), number: 1, process, slots: Vec::new() };
        while !source.0.is_empty() {
            let (step, number, at) = (source.u8(), source.u8(), source.u16());
            world.step(step % 8, number, at);
            world.model.check(store);
        }
    });
}

struct World<'a> {
    store: &'a Store,
    model: Model,
    /// The process that writes, and its number.
    process: Process,
    number: u32,
    /// What this process has written.
    slots: Vec<Slot>,
}

impl World<'_> {
    /// One step, in which the process may die.
    fn step(&mut self, step: u8, number: u8, at: u16) {
        let (last, middle) = (u32::from(at & 0x7fff), at & 0x8000 != 0);
        let ring = &self.process.ring;
        let died = match step {
            // More often than anything else.
            0..=3 => {
                let payload = model::payload(number);
                let (slot, died) = until(last, middle, || match step {
                    3 => ring.write_crash(&payload),
                    _ => ring.write(&payload),
                });
                self.model.written(slot.as_ref().ok().map(Slot::sequence), payload, self.number, died);
                self.slots.extend(slot.ok());
                died
            }
            4 => {
                let outcomes = [Outcome::Ongoing, Outcome::Recovered, Outcome::Unknown];
                let outcome = outcomes[usize::from(number) % 3];
                let Some(mut slot) = self.slots.pop().filter(|slot| ring.holds(slot)) else { return };
                let duration = u64::from(number) << 20;
                let ((), died) = until(last, middle, || ring.update(&mut slot, Live::new(duration, outcome)));
                self.model.updated(slot.sequence(), (duration, outcome), died);
                self.slots.push(slot);
                died
            }
            5 | 6 => {
                let Some((index, sequence)) = self.model.some_record(number) else { return };
                let (consumed, died) = until(last, middle, || ring.consume(index, sequence));
                assert!(consumed, "an unread record can be read");
                self.model.consumed(sequence, died);
                // A freeze whose record was read is not written to any more.
                self.slots.retain(|slot| slot.sequence() != sequence);
                died
            }
            _ => true,
        };
        if died {
            self.number += 1;
            self.process = Process::begin(self.store, self.number);
            self.slots.clear();
        }
    }
}
