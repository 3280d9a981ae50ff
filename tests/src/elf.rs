//! ELF files and their call frame information, as memory.

use freezeframe_arch::Architecture;
use freezeframe_unwind::images::Range;
use freezeframe_unwind::memory::Memory;
use freezeframe_unwind::tables::cfi::Tables;
use object::{Object, ObjectSection, ObjectSegment};
use std::fmt;
use std::path::{Path, PathBuf};

/// A section's bytes and their address.
#[derive(Clone, Default)]
pub struct Section {
    /// The address of the first byte.
    pub address: u64,
    /// The contents.
    pub bytes: Vec<u8>,
}

impl Section {
    /// The addresses of the section.
    pub fn range(&self) -> Range {
        Range { start: self.address, end: self.address + self.bytes.len() as u64 }
    }
}

impl fmt::Debug for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x}", self.bytes.len(), self.address)
    }
}

/// The call frame information of an ELF file, at the addresses that the file gives.
#[derive(Clone, Debug)]
pub struct CfiFile {
    /// Whose code it is.
    pub architecture: Architecture,
    /// All segments.
    pub image: Range,
    /// `.eh_frame`
    pub eh_frame: Section,
    /// `.eh_frame_hdr`
    pub eh_frame_hdr: Option<Section>,
}

impl CfiFile {
    /// Reads a file; none if it is no ELF file of a known architecture, or has no `.eh_frame`.
    pub fn open(path: &Path) -> Option<Self> {
        Self::parse(&std::fs::read(path).ok()?)
    }

    /// Reads the bytes of a file.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let file = object::File::parse(bytes).ok()?;
        let architecture = match file.architecture() {
            object::Architecture::X86_64 => Architecture::X86_64,
            object::Architecture::Aarch64 => Architecture::Arm64,
            _ => return None,
        };
        let section = |name| {
            let section = file.section_by_name(name)?;
            Some(Section { address: section.address(), bytes: section.data().ok()?.to_vec() })
        };
        Some(Self {
            architecture,
            image: Range {
                start: file.segments().map(|s| s.address()).min()?,
                end: file.segments().map(|s| s.address() + s.size()).max()?,
            },
            eh_frame: section(".eh_frame").filter(|section| !section.bytes.is_empty())?,
            eh_frame_hdr: section(".eh_frame_hdr"),
        })
    }

    /// Where the tables are.
    pub fn tables(&self) -> Tables {
        Tables {
            eh_frame: Some(self.eh_frame.range()),
            eh_frame_hdr: self.eh_frame_hdr.as_ref().map(Section::range),
            ..Tables::new(self.image)
        }
    }

    /// The sections as memory that lends its bytes, or as memory that copies, as a process's does.
    pub fn memory(&self, lends: bool) -> SectionMemory<'_> {
        let header = self.eh_frame_hdr.as_ref().unwrap_or(&self.eh_frame);
        SectionMemory { sections: [header, &self.eh_frame], lends }
    }
}

/// See [`CfiFile::memory`].
#[derive(Clone, Copy, Debug)]
pub struct SectionMemory<'a> {
    sections: [&'a Section; 2],
    lends: bool,
}

impl SectionMemory<'_> {
    fn tail(&self, address: u64) -> Option<&[u8]> {
        self.sections.iter().find_map(|section| {
            let offset = address.checked_sub(section.address)?;
            section.bytes.get(offset as usize..).filter(|tail| !tail.is_empty())
        })
    }
}

impl Memory for SectionMemory<'_> {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        let tail = self.tail(address).unwrap_or(&[]);
        out.iter_mut().zip(tail).map(|(to, from)| *to = *from).count()
    }

    fn bytes(&self, address: u64) -> Option<&[u8]> {
        self.tail(address).filter(|_| self.lends)
    }
}

/// The files that this process has mapped as code.
pub fn loaded_files() -> Vec<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let executable =
        maps.lines().filter(|line| line.split_whitespace().nth(1).is_some_and(|p| p.contains('x')));
    let paths = executable.filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..])));
    let mut paths: Vec<PathBuf> = paths.collect();
    paths.sort();
    paths.dedup();
    paths
}
