//! What can be wrong with compact unwind information.

use core::fmt;

/// Why there is no encoding for an address, or no rule for an encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompactError {
    /// The address lies before the first function of the table, behind the last, or in a page without functions.
    NotCovered(u64),
    /// The section has a version that is not 1.
    Version(u32),
    /// A part of the table, at this offset, reaches beyond the end of the section.
    Outside(u64),
    /// Memory that the table should be in cannot be read.
    Unreadable(u64),
    /// A second-level page that is neither regular nor compressed.
    PageKind(u32),
    /// The functions around this address are not in ascending order.
    Unsorted(u64),
    /// An entry refers to an encoding that is in neither list.
    EncodingIndex(u32),
    /// An encoding's mode means nothing on this architecture.
    Mode(u32),
    /// An encoding saves registers that do not exist, or where they cannot be.
    Registers(u32),
    /// There is no `sub $size, %rsp` where an encoding says that the size of the frame is to be read from.
    StackSize(u64),
}

impl fmt::Display for CompactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCovered(pc) => write!(f, "no compact unwind information for {pc:#x}"),
            Self::Version(version) => write!(f, "__unwind_info has unknown version {version}"),
            Self::Outside(offset) => {
                write!(f, "what __unwind_info has at offset {offset:#x} reaches beyond its end")
            }
            Self::Unreadable(address) => write!(f, "unreadable memory at {address:#x}"),
            Self::PageKind(kind) => write!(f, "__unwind_info has a page of unknown kind {kind}"),
            Self::Unsorted(pc) => write!(f, "__unwind_info is not in order around {pc:#x}"),
            Self::EncodingIndex(index) => write!(f, "__unwind_info has no encoding {index}"),
            Self::Mode(encoding) => write!(f, "encoding {encoding:#010x} has an unknown mode"),
            Self::Registers(encoding) => {
                write!(f, "encoding {encoding:#010x} saves registers that cannot be saved so")
            }
            Self::StackSize(address) => {
                write!(f, "no instruction at {address:#x} lowers the stack pointer by a number of 32 bits")
            }
        }
    }
}

impl core::error::Error for CompactError {}
