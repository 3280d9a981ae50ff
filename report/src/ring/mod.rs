//! The ring of slots: `no_std`, no allocation, signal-safe.
//!
//! ```text
//! superblock │ superblock │ slot 0: crash │ slot 1: reserve │ slot 2 │ slot 3 │ …
//!
//! EMPTY ──claim (CAS)──▶ WRITING ──sections, one after the other──▶ COMMITTED ──read──▶ CONSUMED ──claim──▶ …
//! ```
//!
//! A record becomes visible section by section: behind each one the count of valid bytes goes up. A writer that dies in
//! the middle leaves a prefix that can be read. No unread record is overwritten, but for the reserve slot's: the latest
//! freeze always finds a place, and what was lost for it is counted. What becomes known of a freeze after that stands in the
//! record's tail, behind the payload: written anew each time, to one of two places in turn.

mod error;
mod memory;
mod owner;
mod slot;
mod store;

pub use error::RingError;
pub use owner::Owner;
#[cfg(feature = "std")]
pub(crate) use slot::checked_count;
pub use slot::{Live, Ring, Slot};
pub use store::Behind;
