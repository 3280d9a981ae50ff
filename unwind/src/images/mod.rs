//! Which code is loaded where: a table in fixed storage, which costs nothing to read and no lock to refresh.

mod add;
mod build_id;
#[cfg(target_vendor = "apple")]
mod dyld;
mod elf;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(target_vendor = "apple")]
mod mach;
mod macho;
#[cfg(any(target_vendor = "apple", all(test, explored)))]
mod places;
mod table;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub use linux::ImagesError;
#[cfg(target_vendor = "apple")]
pub use mach::ImagesError;
#[cfg(target_vendor = "apple")]
pub(crate) use mach::follow;
pub use macho::part_of_fat_file;
pub use table::{Image, ImageKind, ImageTable, MAX_IMAGES, NAME_BYTES, Range};
