//! loom's atomics, such that it explores every order of their uses.
//!
//! loom looks for another order where a step meets the latest one at the same atomic that it depends on. A thread that loads and then
//! stores meets its own load there, which hides an earlier load of another thread's: of those two no other order would be
//! tried. Here each use is preceded by an exchange of the atomic's companion. Exchanges depend on each other, and being
//! relaxed they order nothing.

pub use loom::sync::atomic::{Ordering, fence};

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        /// An atomic and its companion.
        #[derive(Debug, Default)]
        pub struct $name {
            value: loom::sync::atomic::$name,
            companion: loom::sync::atomic::AtomicU8,
        }

        impl $name {
            pub fn new(value: $value) -> Self {
                Self { value: loom::sync::atomic::$name::new(value), companion: Default::default() }
            }

            fn touched(&self) -> &loom::sync::atomic::$name {
                self.companion.swap(0, Ordering::Relaxed);
                &self.value
            }

            pub fn load(&self, order: Ordering) -> $value {
                self.touched().load(order)
            }

            pub fn store(&self, value: $value, order: Ordering) {
                self.touched().store(value, order)
            }

            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.touched().swap(value, order)
            }

            pub fn compare_exchange(
                &self,
                from: $value,
                to: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.touched().compare_exchange(from, to, success, failure)
            }

            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                self.touched().fetch_update(success, failure, update)
            }
        }
    };
}

macro_rules! number {
    ($name:ident, $value:ty) => {
        atomic!($name, $value);

        impl $name {
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.touched().fetch_add(value, order)
            }

            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.touched().fetch_sub(value, order)
            }

            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                self.touched().fetch_max(value, order)
            }
        }
    };
}

atomic!(AtomicBool, bool);
number!(AtomicU8, u8);
number!(AtomicI32, i32);
number!(AtomicU32, u32);
number!(AtomicU64, u64);
