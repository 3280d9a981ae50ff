//! The superblocks: what kind of file this is, and how large its slots are.

use crate::file::FileError;
use crate::layout::{
    self, FIRST_SLOT, MAGIC, MAJOR, MAX_FILE_BYTES, MAX_SLOTS, MAX_STRIDE, MIN_SLOTS, PAGE,
    SECOND_SUPERBLOCK, Superblock,
};
use core::mem::offset_of;
use std::os::fd::AsFd;
use std::path::Path;

/// How a file is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) slots: usize,
    pub(crate) stride: usize,
}

impl Geometry {
    pub(crate) const fn file_bytes(self) -> usize {
        FIRST_SLOT + self.slots * self.stride
    }
}

/// Reads and checks the superblocks of an open file of `size` bytes.
pub(crate) fn read_geometry(path: &Path, file: impl AsFd, size: u64) -> Result<Geometry, FileError> {
    let mut copies = [0u64, SECOND_SUPERBLOCK as u64].into_iter().map(|at| {
        let mut block = [0; size_of::<Superblock>()];
        let read = read_at(file.as_fd(), &mut block, at).map_err(FileError::system(path, "read"))?;
        Ok(if read == block.len() { check(&block) } else { Block::Foreign })
    });
    let (first, second) =
        (copies.next().unwrap_or(Ok(Block::Foreign))?, copies.next().unwrap_or(Ok(Block::Foreign))?);
    let damaged = |what| Err(FileError::Damaged { path: path.to_owned(), what });
    let geometry = match (first, second) {
        (Block::Newer(major), _) | (_, Block::Newer(major)) => {
            return Err(FileError::NewerVersion { path: path.to_owned(), major });
        }
        (Block::Whole(first), Block::Whole(second)) if first != second => {
            return damaged("the copies of its superblock differ");
        }
        (Block::Whole(geometry), _) | (_, Block::Whole(geometry)) => geometry,
        (Block::Damaged, _) | (_, Block::Damaged) => return damaged("both copies of its superblock"),
        (Block::Foreign, Block::Foreign) => return Err(FileError::NotAReport(path.to_owned())),
    };
    if size < geometry.file_bytes() as u64 {
        return damaged("it is shorter than its superblock says");
    }
    Ok(geometry)
}

enum Block {
    /// No superblock of ours.
    Foreign,
    /// Ours, with a checksum that is not right.
    Damaged,
    /// Of a later major version.
    Newer(u16),
    Whole(Geometry),
}

fn check(block: &[u8; size_of::<Superblock>()]) -> Block {
    let u16_at = |at: usize| u16::from_le_bytes([block[at], block[at + 1]]);
    let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
    if block[..MAGIC.len()] != MAGIC {
        return Block::Foreign;
    }
    const CRC: usize = offset_of!(Superblock, crc);
    if layout::crc(&[&block[..CRC]]) != u32_at(CRC) {
        return Block::Damaged;
    }
    // Only now: a damaged version is no version.
    let major = u16_at(offset_of!(Superblock, major));
    if major > MAJOR {
        return Block::Newer(major);
    }
    let (slots, stride) = (u32_at(offset_of!(Superblock, slots)), u32_at(offset_of!(Superblock, stride)));
    let geometry = Geometry { slots: slots as usize, stride: stride as usize };
    let sensible = (MIN_SLOTS..=MAX_SLOTS).contains(&slots)
        && stride <= MAX_STRIDE
        && (stride as usize).is_multiple_of(PAGE)
        && stride as usize >= 2 * PAGE
        && geometry.file_bytes() as u64 <= MAX_FILE_BYTES;
    if sensible { Block::Whole(geometry) } else { Block::Damaged }
}

/// Reads up to the end of the file or of `out`, and returns how much.
pub(crate) fn read_at(file: impl AsFd, out: &mut [u8], at: u64) -> Result<usize, rustix::io::Errno> {
    let mut filled = 0;
    while filled < out.len() {
        match rustix::io::pread(file.as_fd(), &mut out[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
