//! What is known of a thread without stopping it.

/// A thread of this process. On Linux its id in the process's own pid namespace, as `gettid` returns it. On Mach the name of
/// its port in this task, which stays the same while the thread lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub i32);

/// A thread's name: at most 63 bytes, mostly UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadName {
    bytes: [u8; Self::MAX],
    length: u8,
}

impl ThreadName {
    /// The longest name that any system keeps: 63 bytes on Mach, 15 on Linux.
    pub const MAX: usize = 63;

    /// No name.
    pub const EMPTY: Self = Self { bytes: [0; Self::MAX], length: 0 };

    /// The first [`MAX`](Self::MAX) bytes of `name`.
    pub fn new(name: &[u8]) -> Self {
        let mut bytes = [0; Self::MAX];
        let length = bytes.iter_mut().zip(name).map(|(to, from)| *to = *from).count();
        Self { bytes, length: length as u8 }
    }

    /// The name.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&[])
    }
}

impl Default for ThreadName {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The scheduler's state of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RunState {
    /// Could not be read.
    #[default]
    Unknown = 0,
    /// Running, or waiting for a processor (R).
    Running = 1,
    /// In a wait that a signal ends (S).
    Sleeping = 2,
    /// In a wait that no signal ends (D).
    Uninterruptible = 3,
    /// Stopped by a signal or a tracer (T, t).
    Stopped = 4,
    /// Ended, not yet reaped (Z, X).
    Dead = 5,
    /// A kernel's idle state (I, P).
    Idle = 6,
}

impl RunState {
    /// The state of that letter in `/proc/…/stat`.
    pub const fn from_letter(letter: u8) -> Self {
        match letter {
            b'R' => Self::Running,
            b'S' => Self::Sleeping,
            b'D' => Self::Uninterruptible,
            b'T' | b't' => Self::Stopped,
            b'Z' | b'X' | b'x' => Self::Dead,
            b'I' | b'P' | b'K' | b'W' => Self::Idle,
            _ => Self::Unknown,
        }
    }
}

/// The system call that a thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCall {
    /// Its number, of the thread's architecture.
    pub number: u32,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// What the kernel says of a thread. Each field is as read; what could not be read is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadFacts {
    /// The thread's name.
    pub name: ThreadName,
    /// Its state.
    pub state: RunState,
    /// CPU time in user and kernel mode together, in nanoseconds.
    pub cpu_ns: u64,
    /// CPU time in user mode, in clock ticks (10 ms each).
    pub user_ticks: u64,
    /// CPU time in kernel mode, in clock ticks (10 ms each).
    pub system_ticks: u64,
    /// The system call it is blocked in.
    pub system_call: Option<SystemCall>,
}

impl ThreadFacts {
    /// Nothing known.
    pub const UNKNOWN: Self = Self {
        name: ThreadName::EMPTY,
        state: RunState::Unknown,
        cpu_ns: 0,
        user_ticks: 0,
        system_ticks: 0,
        system_call: None,
    };
}
