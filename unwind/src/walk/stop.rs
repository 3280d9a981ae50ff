//! Why a walk ended.

use core::fmt;

/// Why a walk ended. Only [`EndOfStack`](Self::EndOfStack) says that nothing is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// The regular end: the tables say so, or, in code without tables, the frame pointer is null.
    EndOfStack,
    /// A frame record whose return address lies in the first page.
    NullReturnAddress,
    /// A frame pointer that is not a multiple of eight.
    Misaligned(u64),
    /// A frame pointer or a stack pointer at or below its callee's: a cycle, or not what it should be.
    NotAscending(u64),
    /// A frame pointer above the stack.
    OutOfBounds(u64),
    /// Memory that cannot be read, or that was not copied.
    Unreadable(u64),
    /// A return address in memory that holds no code: not a frame.
    NotCode(u64),
    /// The step limit.
    Limit,
    /// The unwind tables have no way from this address to its caller, and neither has the frame pointer.
    NoRule(u64),
    /// No memory of this process can be read: these are the errors of the calls that would.
    MemoryRefused {
        /// Of `process_vm_readv`.
        process_vm_readv: u16,
        /// Of `pipe2`.
        pipe2: u16,
    },
}

impl StopReason {
    /// A stable number and the address it is about (zero if none), for storing. In the place of an address are the error
    /// numbers of [`MemoryRefused`](Self::MemoryRefused), that of `pipe2` from bit 16 on.
    ///
    /// # Signal safety
    /// Safe.
    pub const fn code(self) -> (u8, u64) {
        match self {
            Self::EndOfStack => (1, 0),
            Self::NullReturnAddress => (2, 0),
            Self::Misaligned(address) => (3, address),
            Self::NotAscending(address) => (4, address),
            Self::OutOfBounds(address) => (5, address),
            Self::Unreadable(address) => (6, address),
            Self::NotCode(address) => (7, address),
            Self::Limit => (8, 0),
            Self::NoRule(address) => (9, address),
            Self::MemoryRefused { process_vm_readv, pipe2 } => {
                (10, process_vm_readv as u64 | (pipe2 as u64) << 16)
            }
        }
    }

    /// The inverse of [`code`](Self::code).
    pub const fn from_code(code: u8, address: u64) -> Option<Self> {
        Some(match code {
            1 => Self::EndOfStack,
            2 => Self::NullReturnAddress,
            3 => Self::Misaligned(address),
            4 => Self::NotAscending(address),
            5 => Self::OutOfBounds(address),
            6 => Self::Unreadable(address),
            7 => Self::NotCode(address),
            8 => Self::Limit,
            9 => Self::NoRule(address),
            10 => Self::MemoryRefused { process_vm_readv: address as u16, pipe2: (address >> 16) as u16 },
            _ => return None,
        })
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EndOfStack => write!(f, "end of stack"),
            Self::NullReturnAddress => write!(f, "null return address"),
            Self::Misaligned(fp) => write!(f, "misaligned frame pointer {fp:#x}"),
            Self::NotAscending(fp) => write!(f, "{fp:#x} is not above its callee's frame"),
            Self::OutOfBounds(fp) => write!(f, "frame pointer {fp:#x} is outside the stack"),
            Self::Unreadable(address) => write!(f, "unreadable memory at {address:#x}"),
            Self::NotCode(pc) => write!(f, "return address {pc:#x} is not in code"),
            Self::Limit => write!(f, "step limit reached"),
            Self::NoRule(pc) => write!(f, "no rule leads from {pc:#x} to its caller"),
            Self::MemoryRefused { process_vm_readv, pipe2 } => write!(
                f,
                "no memory can be read: process_vm_readv fails with error {process_vm_readv}, pipe2 with {pipe2}"
            ),
        }
    }
}
