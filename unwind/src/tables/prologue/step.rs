//! What an instruction does, as far as frames are concerned.

/// What a slot on the stack is addressed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    Stack,
    Frame,
}

/// Registers, by DWARF number, in neighbouring words of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    /// The second one lies eight bytes above the first.
    pub(super) registers: [Option<u16>; 2],
    pub(super) base: Base,
    pub(super) offset: i64,
    /// What is added to the stack pointer before the access, and after.
    pub(super) before: i64,
    pub(super) after: i64,
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Neither the stack pointer nor the frame pointer changes, and the next instruction follows.
    Plain,
    /// `sp = sp + n`
    Stack(i64),
    /// `fp = sp + n`
    FrameFromStack(i64),
    /// `sp = fp + n`
    StackFromFrame(i64),
    Store(Access),
    Load(Access),
    /// `sp = fp`, then the frame pointer is popped.
    Leave,
    Return,
    /// To an address, if the instruction says which.
    Jump(Option<u64>),
    /// On, or to an address.
    Branch(u64),
    /// The program is meant to die here.
    Trap,
    /// A call, or what is not understood.
    Unknown,
}
