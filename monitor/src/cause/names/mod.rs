//! Names of functions out of the images as they lie in memory: without a file, a lock or an allocation, while the program may
//! be frozen in any of them. Only exported names are there; for the others there is the file, where that is wanted.

mod elf;
mod file;
mod macho;

use super::functions::Known;
use crate::subject::Subject;
use freezeframe_unwind::images::{Image, ImageKind, ImageTable};
use freezeframe_unwind::memory::Memory;

/// No name of the table is longer, and its underscores.
const LONGEST: usize = 191;
/// How many addresses are remembered.
const REMEMBERED: usize = 64;

/// Finds functions of the table by address, and remembers what it has found.
#[derive(Debug)]
pub(crate) struct Names {
    version: u32,
    found: [(u64, Symbols, Option<Known>); REMEMBERED],
    next: usize,
}

/// Which names are looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symbols {
    /// Those in memory.
    Exported,
    /// The file's, too.
    All,
}

impl Names {
    pub(crate) const fn new() -> Self {
        Self { version: 0, found: [(0, Symbols::All, None); REMEMBERED], next: 0 }
    }

    /// The function of the table that `lookup` lies in.
    pub(crate) fn find(
        &mut self,
        subject: Subject,
        symbols: Symbols,
        images: &ImageTable,
        memory: &mut impl Memory,
        lookup: u64,
    ) -> Option<Known> {
        if self.version != images.version() {
            *self = Self { version: images.version(), ..Self::new() };
        }
        let is_it = |(address, asked, known): &&(u64, Symbols, Option<Known>)| {
            *address == lookup && (known.is_some() || *asked == Symbols::All || symbols == Symbols::Exported)
        };
        if let Some((.., known)) = self.found.iter().find(is_it) {
            return *known;
        }
        let (_, image) = images.find(lookup)?;
        let known = match image.kind {
            ImageKind::Elf => elf::find(memory, image, lookup).or_else(|| match symbols {
                Symbols::Exported => None,
                Symbols::All => file::find(subject, images, memory, image, lookup),
            }),
            ImageKind::MachO => macho::find(memory, image, lookup),
            ImageKind::Vdso | ImageKind::Anonymous => None,
        };
        self.found[self.next] = (lookup, symbols, known);
        self.next = (self.next + 1) % REMEMBERED;
        known
    }
}

/// Whether an image is the program itself, not a library that it has loaded.
pub(super) fn is_program(memory: &mut impl Memory, image: &Image) -> bool {
    match image.kind {
        ImageKind::Elf => elf::is_program(memory, image),
        ImageKind::MachO => macho::is_program(memory, image),
        ImageKind::Vdso | ImageKind::Anonymous => false,
    }
}

/// A name in a table of strings, if it is one of the table of functions.
fn known_at(memory: &mut impl Memory, address: u64) -> Option<Known> {
    let mut bytes = [0; LONGEST + 1];
    let read = memory.read(address, &mut bytes);
    let bytes = bytes.get(..read)?;
    let end = bytes.iter().position(|byte| *byte == 0)?;
    super::functions::known(bytes.get(..end)?)
}

/// A little-endian number of `N` bytes at `at`.
fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    let found = bytes.get(at..at + N).unwrap_or(&[]);
    word.iter_mut().zip(found).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(word)
}
