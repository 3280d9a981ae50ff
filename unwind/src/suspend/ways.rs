//! Ways of reading threads, and what they are read for.

/// A way of reading a thread's registers and stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Way {
    /// Not stopping it: it waits in the kernel.
    Peek = 1,
    /// Stopping it by a signal.
    Signal = 2,
    /// Stopping it by a helper that traces it, together with others.
    Ptrace = 4,
}

/// Which ways may be taken. Mach has one of its own, which is always taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ways(u8);

impl Ways {
    /// All of them.
    pub const ALL: Self = Self(Way::Peek as u8 | Way::Signal as u8 | Way::Ptrace as u8);

    /// This one alone.
    ///
    /// # Signal safety
    /// Safe, as is every method of this type.
    pub const fn only(way: Way) -> Self {
        Self(way as u8)
    }

    /// These and `way`.
    pub const fn and(self, way: Way) -> Self {
        Self(self.0 | way as u8)
    }

    /// These without `way`.
    pub const fn without(self, way: Way) -> Self {
        Self(self.0 & !(way as u8))
    }

    /// Whether `way` is among them.
    pub const fn contains(self, way: Way) -> bool {
        self.0 & way as u8 != 0
    }
}

/// What threads are read for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// One thread matters, and at once; the others show what was around it. Each is read by itself, so that none is held
    /// for longer than its own stack takes.
    #[default]
    OneThread,
    /// All threads at one time: who waits for whom.
    AllTogether,
}
