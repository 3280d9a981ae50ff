//! ELF: all symbols of an image's file, where those in memory do not name a function: a program's own, and those of what is linked
//! into it. Read without a lock or an allocation; a file system that hangs would keep the watcher, so only for waits that are no
//! file's.

use super::{elf, number};
use crate::cause::functions::Known;
use crate::subject::{self, Subject};
use freezeframe_unwind::images::{Image, ImageTable};
use freezeframe_unwind::memory::Memory;
use std::os::fd::OwnedFd;

const SECTION: usize = 64;
const SYMBOL_TABLE: u64 = 2;

/// A file as memory that begins at zero.
struct Bytes(OwnedFd);

impl Memory for Bytes {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        rustix::io::pread(&self.0, out, address).unwrap_or(0)
    }
}

pub(super) fn find(
    subject: Subject,
    images: &ImageTable,
    memory: &mut impl Memory,
    image: &Image,
    lookup: u64,
) -> Option<Known> {
    let mut file = Bytes(subject::open(subject, images.path(image))?);
    if !is_same(&mut file, memory, image.range.start) {
        return None;
    }
    let (symbols, bytes, strings) = tables(&mut file)?;
    elf::search(&mut file, symbols, bytes, strings, lookup.wrapping_sub(image.slide))
}

/// Whether the file is the one that was loaded, and not a newer one in its place: by its headers, and its build id after them.
fn is_same(file: &mut impl Memory, memory: &mut impl Memory, start: u64) -> bool {
    const BEGINNING: usize = 1024;
    let (mut one, mut other) = ([0; BEGINNING], [0; BEGINNING]);
    file.read(0, &mut one) == BEGINNING && memory.read(start, &mut other) == BEGINNING && one == other
}

/// Where the symbols and their strings lie in the file, and how many bytes the symbols have.
fn tables(file: &mut impl Memory) -> Option<(u64, u64, u64)> {
    let mut header = [0; 64];
    if file.read(0, &mut header) < header.len() || !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (start, count) = (number::<8>(&header, 40), number::<2>(&header, 60));
    let mut section = |index: u64| {
        let mut bytes = [0; SECTION];
        let at = start.wrapping_add(index * SECTION as u64);
        (file.read(at, &mut bytes) == SECTION).then_some(bytes)
    };
    for index in 0..count {
        let symbols = section(index)?;
        if number::<4>(&symbols, 4) == SYMBOL_TABLE {
            let strings = section(number::<4>(&symbols, 40))?;
            return Some((number::<8>(&symbols, 24), number::<8>(&symbols, 32), number::<8>(&strings, 24)));
        }
    }
    None
}
