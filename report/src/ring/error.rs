//! Why a record was not written.

/// Why a record was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingError {
    /// Every slot holds an unread record. The record was counted as dropped.
    Full,
    /// The record has more bytes than a slot.
    TooLarge,
    /// The file did not take it: cut off on a full disk, say. What it has taken is read as the record of a writer that
    /// has died.
    NotTaken,
}

impl core::fmt::Display for RingError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Full => "every slot of the report file holds an unread record",
            Self::TooLarge => "the record is larger than a slot of the report file",
            Self::NotTaken => "the report file did not take the record: is the disk full?",
        })
    }
}

impl core::error::Error for RingError {}
