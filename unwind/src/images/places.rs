//! A fixed list of images that one thread changes and any thread reads, without a lock.

use super::table::MAX_IMAGES;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// One image, as dyld tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loaded {
    /// The address of its header.
    pub(super) load_address: u64,
    /// The address of its path, a C string of dyld's.
    pub(super) path: u64,
    /// Tells an image from another that was at the same address before.
    pub(super) serial: u64,
}

/// A place in the list.
#[derive(Debug)]
struct Place {
    /// [`FREE`], [`TAKEN`], or the address of the header. Written last, so that the other two fit it.
    load_address: AtomicU64,
    path: AtomicU64,
    /// Each image's is another. Written after the path.
    serial: AtomicU64,
}

const FREE: u64 = 0;
/// While the other fields are written.
const TAKEN: u64 = 1;

/// The list.
#[derive(Debug)]
pub(super) struct Places<const N: usize = MAX_IMAGES> {
    places: [Place; N],
    serial: AtomicU64,
    overflowed: AtomicU32,
}

impl<const N: usize> Places<N> {
    /// Takes an image into the list.
    pub(super) fn note(&self, load_address: u64, path: u64) {
        // Most places are taken: looking is cheaper than trying.
        let takes = |place: &&Place| {
            let place = &place.load_address;
            place.load(Ordering::Relaxed) == FREE
                && place.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let Some(place) = self.places.iter().find(takes) else {
            self.overflowed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        // Released, each: who sees one of these sees that the place's last image is gone.
        place.path.store(path, Ordering::Release);
        let serial = self.serial.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        place.serial.store(serial, Ordering::Release);
        place.load_address.store(load_address, Ordering::Release);
    }

    /// Takes it out again.
    pub(super) fn remove(&self, load_address: u64) {
        let place =
            self.places.iter().find(|place| place.load_address.load(Ordering::Relaxed) == load_address);
        if let Some(place) = place {
            place.load_address.store(FREE, Ordering::Release);
        }
    }

    pub(super) fn contains(&self, load_address: u64) -> bool {
        self.places.iter().any(|place| place.load_address.load(Ordering::Acquire) == load_address)
    }

    /// Whether an image found no place.
    pub(super) fn has_overflowed(&self) -> bool {
        self.overflowed.load(Ordering::Relaxed) > 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Loaded> {
        self.places.iter().filter_map(Place::read)
    }
}

impl Place {
    fn read(&self) -> Option<Loaded> {
        let load_address = self.load_address.load(Ordering::Acquire);
        let serial = self.serial.load(Ordering::Acquire);
        let path = self.path.load(Ordering::Acquire);
        // Only what belongs together. The address alone does not tell: another image may have been loaded there since.
        let steady = load_address > TAKEN
            && self.load_address.load(Ordering::Acquire) == load_address
            && self.serial.load(Ordering::Relaxed) == serial;
        steady.then_some(Loaded { load_address, path, serial })
    }
}

#[cfg(not(all(test, explored)))]
impl<const N: usize> Places<N> {
    pub(super) const fn new() -> Self {
        let places = [const {
            Place { load_address: AtomicU64::new(FREE), path: AtomicU64::new(0), serial: AtomicU64::new(0) }
        }; N];
        Self { places, serial: AtomicU64::new(0), overflowed: AtomicU32::new(0) }
    }
}

#[cfg(all(test, explored))]
mod races;
