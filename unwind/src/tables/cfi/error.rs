//! What can be wrong with call frame information.

use crate::memory::CutShort;
use core::fmt;

/// Why there is no row for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableError {
    /// The image has no call frame information.
    NoTables,
    /// No FDE contains this address.
    NoEntry(u64),
    /// `.eh_frame_hdr` has a version that is not 1.
    HeaderVersion(u64),
    /// `.eh_frame_hdr` claims more entries than it has room for.
    HeaderCount(u64),
    /// Memory that a table should be in cannot be read.
    Unreadable(u64),
    /// A field is cut short by the end of its entry or of readable memory, or a number has more than 64 bits.
    CutShort,
    /// An entry at this address is not inside the image, or reaches beyond its end.
    EntryOutside(u64),
    /// What an index points to at this address is no FDE.
    NotFde(u64),
    /// What an FDE points to at this address is no CIE.
    NotCie(u64),
    /// A CIE has a version that is not 1, 3 or 4.
    CieVersion(u64),
    /// A CIE has addresses that are not of 64 bits, or segments.
    AddressSize(u64),
    /// A CIE has an unknown augmentation, whose length is not known either.
    Augmentation(u64),
    /// An unknown pointer encoding.
    PointerEncoding(u64),
    /// A pointer encoding that is relative to something this image does not have.
    NoBase(u64),
    /// An FDE's code ends beyond the address space.
    CodeRange(u64),
    /// An unknown call frame instruction.
    Instruction(u64),
    /// An instruction that makes no sense where it stands: in a CIE, or without what it changes.
    Misplaced(u64),
    /// An instruction moves the address backwards or beyond the address space.
    Location(u64),
    /// More states are remembered than there is room for.
    StatesFull,
    /// A state is restored, but none was remembered.
    NoState,
    /// A register number beyond all architectures'.
    RegisterNumber(u64),
    /// `.eh_frame` has more entries than are searched one by one.
    TooManyEntries,
}

impl From<CutShort> for TableError {
    fn from(_: CutShort) -> Self {
        Self::CutShort
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTables => write!(f, "the image has no call frame information"),
            Self::NoEntry(pc) => write!(f, "no call frame information for {pc:#x}"),
            Self::HeaderVersion(version) => write!(f, ".eh_frame_hdr has unknown version {version}"),
            Self::HeaderCount(count) => {
                write!(f, ".eh_frame_hdr claims {count} entries, more than it has room for")
            }
            Self::Unreadable(address) => write!(f, "unreadable memory at {address:#x}"),
            Self::CutShort => write!(f, "call frame information is cut short or has an overlong number"),
            Self::EntryOutside(address) => write!(f, "the entry at {address:#x} is not inside the image"),
            Self::NotFde(address) => write!(f, "there is no FDE at {address:#x}"),
            Self::NotCie(address) => write!(f, "there is no CIE at {address:#x}"),
            Self::CieVersion(version) => write!(f, "a CIE has unknown version {version}"),
            Self::AddressSize(size) => write!(f, "a CIE has segments, or addresses of {size} bytes"),
            Self::Augmentation(letter) => {
                write!(f, "a CIE has unknown augmentation '{}'", char::from(*letter as u8).escape_default())
            }
            Self::PointerEncoding(encoding) => write!(f, "unknown pointer encoding {encoding:#04x}"),
            Self::NoBase(encoding) => {
                write!(f, "pointer encoding {encoding:#04x} is relative to what is not known")
            }
            Self::CodeRange(start) => write!(f, "the code from {start:#x} on ends beyond the address space"),
            Self::Instruction(opcode) => write!(f, "unknown call frame instruction {opcode:#04x}"),
            Self::Misplaced(opcode) => {
                write!(f, "call frame instruction {opcode:#04x} makes no sense where it stands")
            }
            Self::Location(address) => write!(f, "call frame instructions move from {address:#x} backwards"),
            Self::StatesFull => write!(f, "too many remembered states"),
            Self::NoState => write!(f, "a state is restored that was not remembered"),
            Self::RegisterNumber(number) => write!(f, "register number {number} is too large"),
            Self::TooManyEntries => write!(f, ".eh_frame has no index and too many entries to search"),
        }
    }
}

impl core::error::Error for TableError {}
