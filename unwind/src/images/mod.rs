//! Which code is loaded where: a table in fixed storage, which costs nothing to read and no lock to refresh.

mod add;
mod build_id;
mod elf;
#[cfg(target_os = "linux")]
mod linux;
mod macho;
mod table;

#[cfg(target_os = "linux")]
pub use linux::ImagesError;
pub use macho::part_of_fat_file;
pub use table::{Image, ImageKind, ImageTable, MAX_IMAGES, NAME_BYTES, Range};
