//! Which code is loaded where: a table in fixed storage, which costs nothing to read and no lock to refresh.

mod elf;
#[cfg(target_os = "linux")]
mod linux;
mod table;

#[cfg(target_os = "linux")]
pub use linux::ImagesError;
pub use table::{Image, ImageKind, ImageTable, MAX_IMAGES, NAME_BYTES, Range};
