//! Steps of writers that die at any store, and of readers: whatever was committed reads back bit for bit, whatever was not
//! is no more than the sections that were written, and nothing else is ever seen.

mod model;
mod stores;

use super::scratch;
use super::source::Source;
use freezeframe_report::file::{ReportFile, Size};
use freezeframe_report::layout::{FIRST_SLOT, Outcome};
use freezeframe_report::ring::{Live, Owner, Ring, Slot};
use model::Model;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::ptr::NonNull;

const SLOTS: usize = 5;
const STRIDE: usize = 8192;
const BYTES: usize = FIRST_SLOT + SLOTS * STRIDE;

/// Steps of four bytes: what happens, with which number, and at which store the writer dies; none: it lives on.
pub fn ring(bytes: &[u8]) {
    thread_local! {
        static STORE: Store = Store::new();
    }
    STORE.with(|store| {
        store.clear();
        let mut source = Source(bytes);
        let mut world = World { store, model: Model::default(), process: 1, slots: Vec::new() };
        while !source.0.is_empty() {
            let (step, number, at) = (source.u8(), source.u8(), source.u16());
            world.step(step % 8, number, at.into());
            world.model.check(store);
        }
    });
}

/// A report file, mapped.
struct Store {
    path: PathBuf,
    base: NonNull<u8>,
}

impl Store {
    fn new() -> Self {
        let path = scratch::path("ring");
        let size = Size { slots: SLOTS as u32, stride: STRIDE as u32 };
        drop(ReportFile::open(&path, size, owner(0)).expect("a report file can be made"));
        let file = OpenOptions::new().read(true).write(true).open(&path).expect("the file is there");
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file that is as long; it stays for the life of the process.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), BYTES, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(base, libc::MAP_FAILED);
        Self { path, base: NonNull::new(base.cast()).expect("mapped") }
    }

    /// No record, and none was ever written.
    fn clear(&self) {
        let mut bytes = self.bytes();
        bytes[freezeframe_report::layout::COUNTERS..][..16].fill(0);
        bytes[FIRST_SLOT..].fill(0);
        self.put(&bytes);
    }

    fn bytes(&self) -> Vec<u8> {
        // SAFETY: the mapping has that length, and only this thread writes to it.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), BYTES) }.to_vec()
    }

    fn put(&self, bytes: &[u8]) {
        assert_eq!(bytes.len(), BYTES);
        // SAFETY: the mapping has that length, and only this thread writes to it.
        unsafe { self.base.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), BYTES) };
    }

    fn ring(&self, process: u32) -> Ring {
        // SAFETY: the mapping is aligned, has that length and stays.
        unsafe { Ring::new(self.base, SLOTS, STRIDE, owner(process)) }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A process that has ended long ago.
fn owner(process: u32) -> Owner {
    Owner { pid: 0x4000_0000 + process, start_ticks: process.into(), boot_id: [7; 16] }
}

struct World<'a> {
    store: &'a Store,
    model: Model,
    /// The process that writes.
    process: u32,
    /// What this process has written.
    slots: Vec<Slot>,
}

impl World<'_> {
    /// One step, which ends with the process at its store number `last`, if that is not zero.
    fn step(&mut self, step: u8, number: u8, last: u32) {
        let ring = self.store.ring(self.process);
        match step {
            // More often than anything else.
            0..=3 => {
                let payload = model::payload(number);
                let crash = step == 3;
                let (slot, died) = self.until(last, || match crash {
                    true => ring.write_crash(&payload),
                    false => ring.write(&payload),
                });
                self.model.written(slot.as_ref().ok().map(Slot::sequence), payload, self.process, died);
                self.slots.extend(slot.ok().filter(|_| !died));
            }
            4 => {
                let outcomes = [Outcome::Ongoing, Outcome::Recovered, Outcome::Unknown];
                let outcome = outcomes[usize::from(number) % 3];
                let Some(mut slot) = self.slots.pop() else { return };
                let duration = u64::from(number) << 20;
                let ((), died) = self.until(last, || ring.update(&mut slot, Live::new(duration, outcome)));
                self.model.updated(slot.sequence(), (duration, outcome), died);
                if !died {
                    self.slots.push(slot);
                }
            }
            5 | 6 => {
                let Some((index, sequence)) = self.model.some_record(number) else { return };
                let (consumed, died) = self.until(last, || ring.consume(index, sequence));
                assert!(consumed, "an unread record can be read");
                self.model.consumed(sequence, died);
                // A freeze whose record was read is not written to any more.
                self.slots.retain(|slot| slot.sequence() != sequence);
            }
            _ => self.end(),
        }
    }

    /// What a process does, until it dies at a store: then the file is as it was behind that.
    fn until<T>(&mut self, last: u32, work: impl FnOnce() -> T) -> (T, bool) {
        let (result, died) = match last {
            0 => (work(), None),
            last => stores::until(self.store.base, BYTES, last, work),
        };
        if let Some(bytes) = &died {
            self.store.put(bytes);
            self.end();
        }
        (result, died.is_some())
    }

    /// Another process goes on, and begins as those do that open a file.
    fn end(&mut self) {
        self.process += 1;
        self.store.ring(self.process).reclaim();
        self.slots.clear();
    }
}
