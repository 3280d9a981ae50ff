//! The images of this process, from dyld's callbacks or from its own list.

use super::dyld::{self, AllImageInfos};
use super::places::Loaded;
use super::table::{ImageKind, ImageTable};
use crate::memory::{Memory, ProcessMemory};

/// Why the table could not be refreshed. It keeps what it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImagesError {
    /// The kernel does not say where dyld's list lies, or it cannot be read.
    Unknown,
    /// dyld is changing its list, and has not come to an end for several tries.
    Changing,
}

impl core::fmt::Display for ImagesError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Unknown => "dyld's list of images cannot be read",
            Self::Changing => "dyld is changing its list of images",
        })
    }
}

impl core::error::Error for ImagesError {}

/// The longest path that any file can have.
const PATH_BYTES: usize = 1024;

/// Has dyld tell of its images from now on: then a refresh needs no list that dyld may be changing.
pub(crate) fn follow() {
    dyld::register(&mut ProcessMemory::new());
}

impl ImageTable {
    /// Brings the table up to date with what is loaded now. Images that are already known are not read again.
    ///
    /// After [`init`](crate::init::init) this is what dyld's callbacks have told; without it, or when they have told of more
    /// images than fit, dyld's own list. dyld itself is an image too.
    ///
    /// # Errors
    /// dyld's list cannot be read, or changes all the time. The table keeps what it had.
    ///
    /// # Signal safety
    /// Safe, but for the stack: it uses about 3 KiB. No lock is taken; not to be called while a thread is held.
    pub fn refresh(&mut self) -> Result<(), ImagesError> {
        if self.is_littered() {
            self.clear();
        }
        let mut memory = ProcessMemory::new();
        let infos = AllImageInfos::read(&mut memory);
        if let Some(told) = dyld::told() {
            self.generation = self.generation.wrapping_add(1);
            told.for_each(|image| self.note(&mut memory, image));
        } else {
            self.refresh_from_list(&mut memory, infos)?;
        }
        if let Some(dyld) = infos.and_then(|infos| infos.dyld_image()) {
            self.note(&mut memory, dyld);
        }
        self.settle();
        Ok(())
    }

    fn refresh_from_list(
        &mut self,
        memory: &mut ProcessMemory,
        infos: Option<AllImageInfos>,
    ) -> Result<(), ImagesError> {
        const TRIES: u32 = 4;
        let mut infos = infos.ok_or(ImagesError::Unknown)?;
        for _ in 0..TRIES {
            self.generation = self.generation.wrapping_add(1);
            for index in 0..if infos.is_changing() { 0 } else { infos.count } {
                match infos.image(memory, index) {
                    Some(image) => self.note(memory, image),
                    None => break,
                }
            }
            let now = AllImageInfos::read(memory).ok_or(ImagesError::Unknown);
            match now {
                Ok(now) if now == infos && !now.is_changing() => return Ok(()),
                Ok(now) => infos = now,
                Err(error) => return self.keep_all(error),
            }
        }
        self.keep_all(ImagesError::Changing)
    }

    /// Forgets nothing, and says why.
    fn keep_all(&mut self, error: ImagesError) -> Result<(), ImagesError> {
        let generation = self.generation;
        self.images.iter_mut().take(self.count).for_each(|image| image.generation = generation);
        self.settle();
        Err(error)
    }

    /// Takes an image into the table, or marks it as still there.
    fn note(&mut self, memory: &mut ProcessMemory, image: Loaded) {
        let file = (image.serial, image.load_address);
        if self.keep_known(ImageKind::MachO, image.load_address, file).is_some() {
            return;
        }
        let mut path = [0; PATH_BYTES];
        let read = memory.read(image.path, &mut path);
        let path = path.get(..read).unwrap_or(&[]);
        let length = path.iter().position(|byte| *byte == 0).unwrap_or(0);
        let path = path.get(..length).unwrap_or(&[]);
        // What is no image is left out: unloaded in this moment.
        let _ = self.add_image(memory, ImageKind::MachO, image.load_address, file, path);
    }
}
