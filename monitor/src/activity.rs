//! What a run loop is about to do.

/// The activities of a run loop, with the values of `CFRunLoopActivity`.
///
/// A loop of another kind reports at least [`BeforeWaiting`](Self::BeforeWaiting), right before it waits for events, and
/// [`AfterWaiting`](Self::AfterWaiting), right after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Activity {
    /// A run of the loop begins, perhaps inside a callback of another run.
    Entry = 1,
    /// About to handle timers.
    BeforeTimers = 2,
    /// About to handle sources.
    BeforeSources = 4,
    /// About to wait.
    BeforeWaiting = 32,
    /// Woken up, about to handle what has come.
    AfterWaiting = 64,
    /// The run has ended.
    Exit = 128,
}

impl Activity {
    /// Whether a loop that stays in this activity is frozen. It waits after `BeforeWaiting` and is elsewhere after `Exit`;
    /// at any other point it should soon reach the next one.
    pub const fn is_busy(self) -> bool {
        !matches!(self, Self::BeforeWaiting | Self::Exit)
    }

    /// The activity of that value.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Entry,
            2 => Self::BeforeTimers,
            4 => Self::BeforeSources,
            32 => Self::BeforeWaiting,
            64 => Self::AfterWaiting,
            128 => Self::Exit,
            _ => return None,
        })
    }
}
