//! A file's sections as one memory, at the addresses that the file gives: code and tables.

use crate::elf::Section;
use freezeframe_arch::Architecture;
use freezeframe_unwind::images::Range;
use freezeframe_unwind::memory::Memory;
use object::{Object, ObjectSection};

/// Every section of a file that is loaded and has contents, by ascending address.
#[derive(Clone, Debug)]
pub struct CodeFile {
    /// Whose code it is.
    pub architecture: Architecture,
    sections: Vec<Section>,
}

impl CodeFile {
    /// Reads the bytes of an ELF or Mach-O file; none if they are none, or of another architecture.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let file = object::File::parse(bytes).ok()?;
        let architecture = match file.architecture() {
            object::Architecture::X86_64 => Architecture::X86_64,
            object::Architecture::Aarch64 => Architecture::Arm64,
            _ => return None,
        };
        let loaded = file.sections().filter(|section| section.address() != 0);
        let sections = loaded.filter_map(|section| {
            let bytes = section.data().ok().filter(|bytes| !bytes.is_empty())?.to_vec();
            Some(Section { address: section.address(), bytes })
        });
        let mut sections: Vec<Section> = sections.collect();
        sections.sort_by_key(|section| section.address);
        Some(Self { architecture, sections })
    }

    /// The section that an address lies in.
    pub fn around(&self, address: u64) -> Option<&Section> {
        let after = self.sections.partition_point(|section| section.address <= address);
        let section = self.sections.get(after.checked_sub(1)?)?;
        section.range().contains(address).then_some(section)
    }

    /// The addresses of a section.
    pub fn range_around(&self, address: u64) -> Range {
        self.around(address).map(Section::range).unwrap_or_default()
    }
}

impl Memory for &CodeFile {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        let tail = Memory::bytes(self, address).unwrap_or(&[]);
        out.iter_mut().zip(tail).map(|(to, from)| *to = *from).count()
    }

    fn bytes(&self, address: u64) -> Option<&[u8]> {
        let section = self.around(address)?;
        section.bytes.get((address - section.address) as usize..)
    }
}
