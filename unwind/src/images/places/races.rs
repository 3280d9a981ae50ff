//! Every order of dyld's news and a reader's look.

extern crate std;
use super::*;
use freezeframe_races::{explore, loom::thread};
use std::sync::Arc;

impl<const N: usize> Places<N> {
    fn new() -> Self {
        let places = std::array::from_fn(|_| Place {
            load_address: AtomicU64::new(FREE),
            path: AtomicU64::new(0),
            serial: AtomicU64::new(0),
        });
        Self { places, serial: AtomicU64::new(0), overflowed: AtomicU32::new(0) }
    }
}

#[test]
fn an_image_is_read_with_its_own_path_whatever_takes_its_place() {
    explore("images: a place is read whole", Some(3), || {
        let list = Arc::new(Places::<1>::new());
        list.note(0x1000, 1);
        let of_dyld = list.clone();
        let dyld = thread::spawn(move || {
            // Another image at the same address, then one elsewhere.
            of_dyld.remove(0x1000);
            of_dyld.note(0x1000, 2);
            of_dyld.remove(0x1000);
            of_dyld.note(0x2000, 3);
        });
        if let Some(image) = list.iter().next() {
            let whole = [(0x1000, 1, 1), (0x1000, 2, 2), (0x2000, 3, 3)];
            assert!(whole.contains(&(image.load_address, image.path, image.serial)), "{image:?}");
        }
        dyld.join().unwrap();
        assert!(list.contains(0x2000) && !list.contains(0x1000) && !list.has_overflowed());
    });
}

#[test]
fn two_that_are_told_at_once_get_places_of_their_own() {
    explore("images: two at once", Some(3), || {
        let list = Arc::new(Places::<2>::new());
        let other = list.clone();
        let second = thread::spawn(move || other.note(0x2000, 2));
        list.note(0x1000, 1);
        second.join().unwrap();
        assert!(list.contains(0x1000) && list.contains(0x2000) && !list.has_overflowed());
        list.note(0x3000, 3);
        assert!(list.has_overflowed() && !list.contains(0x3000));
    });
}
