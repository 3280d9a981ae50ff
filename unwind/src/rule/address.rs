//! The kinds of frame addresses.

/// A code address in a stack, and how it got there. The difference matters when it is looked up: a return address
/// points *behind* its call, which may be the next function's first byte when the callee never returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameAddress {
    /// The program counter of a stopped thread: the instruction itself.
    InstructionPointer(u64),
    /// Where a call returns to.
    ReturnAddress(u64),
    /// The program counter that a signal interrupted: the instruction itself, found beneath a signal frame.
    SignalReturn(u64),
}

impl FrameAddress {
    /// The address as it was found.
    ///
    /// # Signal safety
    /// Safe, as is every method of this type.
    pub const fn raw(self) -> u64 {
        match self {
            Self::InstructionPointer(pc) | Self::ReturnAddress(pc) | Self::SignalReturn(pc) => pc,
        }
    }

    /// The address to look up in tables and symbols: inside the instruction that was executing.
    ///
    /// ```
    /// use freezeframe_unwind::rule::FrameAddress;
    /// assert_eq!(FrameAddress::ReturnAddress(0x1000).lookup(), 0xfff);
    /// assert_eq!(FrameAddress::InstructionPointer(0x1000).lookup(), 0x1000);
    /// ```
    pub const fn lookup(self) -> u64 {
        match self {
            Self::InstructionPointer(pc) | Self::SignalReturn(pc) => pc,
            Self::ReturnAddress(pc) => pc.wrapping_sub(1),
        }
    }

    /// The same kind with another address: a pointer authentication code stripped, for instance.
    pub const fn with(self, pc: u64) -> Self {
        match self {
            Self::InstructionPointer(_) => Self::InstructionPointer(pc),
            Self::ReturnAddress(_) => Self::ReturnAddress(pc),
            Self::SignalReturn(_) => Self::SignalReturn(pc),
        }
    }
}

/// Where a frame's address came from: the better the source, the earlier it stands here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Trust {
    /// The thread's registers.
    Context = 1,
    /// The link register.
    LinkRegister = 2,
    /// Call frame information, `.eh_frame`.
    Cfi = 3,
    /// Compact unwind information, `__unwind_info`.
    Compact = 4,
    /// The frame pointer chain.
    FramePointer = 5,
    /// A word on the stack that looks like a return address.
    Scan = 6,
}
