//! Offsets, sizes and numbers of the file format. `FORMAT.md` is the same in prose.

use core::mem::offset_of;
use static_assertions::const_assert_eq;

/// The first eight bytes of a file. Like PNG's, they show when a transfer has mangled line ends or the eighth bit.
pub const MAGIC: [u8; 8] = *b"\x89FFR\r\n\x1a\n";
/// A reader refuses a file of a greater major version.
pub const MAJOR: u16 = 1;
/// Greater minor versions add sections, or fields at the end of sections.
pub const MINOR: u16 = 2;

/// Slots begin at multiples of this, and so does the second superblock.
pub const PAGE: usize = 4096;
/// Where the second copy of the superblock lies.
pub const SECOND_SUPERBLOCK: usize = PAGE;
/// Where the first slot begins.
pub const FIRST_SLOT: usize = 2 * PAGE;
/// Where the counters lie: in the first page, outside of the superblock, since they change.
pub const COUNTERS: usize = 512;
/// Where the payload begins in a slot.
pub const PAYLOAD: usize = 256;
/// The slot that is kept for a crash.
pub const CRASH_SLOT: usize = 0;
/// The slot that is kept for a freeze when every other one holds an unread record.
pub const RESERVE_SLOT: usize = 1;
/// The fewest slots that a file can have: the two above, and one.
pub const MIN_SLOTS: u32 = 3;
/// No record needs more than this: a bound for readers.
pub const MAX_STRIDE: u32 = 64 << 20;
/// As many slots as a reader accepts.
pub const MAX_SLOTS: u32 = 4096;
/// No file is larger: a bound for readers.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

/// Two copies of this lie at the start of the file; they are written once.
#[repr(C)]
#[derive(Debug)]
pub struct Superblock {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`MAJOR`].
    pub major: u16,
    /// [`MINOR`].
    pub minor: u16,
    /// Slots in the file.
    pub slots: u32,
    /// Bytes from one slot to the next: a multiple of [`PAGE`].
    pub stride: u32,
    /// Zero.
    pub reserved: u32,
    /// Bytes in the file.
    pub file_size: u64,
    /// Identifies the file.
    pub uuid: [u8; 16],
    /// Zero.
    pub reserved_end: [u8; 12],
    /// CRC-32C of the bytes before.
    pub crc: u32,
}

const_assert_eq!(size_of::<Superblock>(), 64);
const_assert_eq!(offset_of!(Superblock, file_size), 24);
const_assert_eq!(offset_of!(Superblock, crc), 60);

/// At [`COUNTERS`]; changed by atomic additions.
#[repr(C)]
#[derive(Debug)]
pub struct Counters {
    /// The sequence number of the latest record.
    pub sequence: u64,
    /// Records that found no slot, or were overwritten before they were read: a number of 32 bits, and above it its
    /// complement; all zero at first.
    pub dropped: u64,
}

const_assert_eq!(size_of::<Counters>(), 16);

/// At the start of each slot.
#[repr(C)]
#[derive(Debug)]
pub struct SlotHeader {
    /// A [`SlotState`].
    pub state: u32,
    /// Bytes of the payload that are complete sections. Zero in a slot that may be claimed.
    pub valid_bytes: u32,
    /// The record's number: one more for each record of the file.
    pub sequence: u64,
    /// When the process that wrote began, in its system's unit: see [`Owner`](crate::ring::Owner).
    pub start_ticks: u64,
    /// The boot in which it ran.
    pub boot_id: [u8; 16],
    /// Its id.
    pub pid: u32,
    /// Bytes of the payload; zero before the commit.
    pub payload_bytes: u32,
    /// CRC-32C of the payload; zero before the commit.
    pub payload_crc: u32,
    /// Zero.
    pub reserved: [u8; 8],
    /// CRC-32C of the bytes from `sequence` to here.
    pub crc: u32,
}

/// The part of a slot's header that its checksum covers begins here; what is before changes by itself.
pub const SEALED: usize = offset_of!(SlotHeader, sequence);

const_assert_eq!(size_of::<SlotHeader>(), 64);
const_assert_eq!(offset_of!(SlotHeader, sequence), 8);
const_assert_eq!(offset_of!(SlotHeader, start_ticks), 16);
const_assert_eq!(offset_of!(SlotHeader, boot_id), 24);
const_assert_eq!(offset_of!(SlotHeader, pid), 40);
const_assert_eq!(offset_of!(SlotHeader, payload_crc), 48);
const_assert_eq!(offset_of!(SlotHeader, crc), 60);

/// Where the two live cells lie in a slot.
pub const LIVE_CELLS: [usize; 2] = [64, 128];

/// What changes of a record while its freeze goes on. The writer alternates between two cells, so that one of them is
/// whole at any time.
#[repr(C)]
#[derive(Debug)]
pub struct LiveCell {
    /// One more for each update; zero: never written.
    pub update: u64,
    /// The record's sequence number.
    pub sequence: u64,
    /// How long the freeze has lasted, in nanoseconds.
    pub duration_ns: u64,
    /// An [`Outcome`].
    pub outcome: u32,
    /// Where the tail begins, from the slot's start; zero: there is none.
    pub tail_at: u32,
    /// Bytes of the tail.
    pub tail_bytes: u32,
    /// CRC-32C of the tail.
    pub tail_crc: u32,
    /// How long the freezes with the same stack lasted that this record stands for as well, in nanoseconds.
    pub repeated_ns: u64,
    /// How many those are.
    pub repeats: u32,
    /// How long the latest of those has lasted by now, in nanoseconds, little-endian; zero: none goes on.
    pub repeating_ns: [u8; 8],
    /// CRC-32C of the bytes before.
    pub crc: u32,
}

const_assert_eq!(size_of::<LiveCell>(), 64);
const_assert_eq!(offset_of!(LiveCell, repeating_ns), 52);
const_assert_eq!(offset_of!(LiveCell, tail_at), 28);
const_assert_eq!(offset_of!(LiveCell, repeated_ns), 40);
const_assert_eq!(offset_of!(LiveCell, crc), 60);

/// Every section of a payload begins with this: type, bytes in the body, CRC-32C of both and the body.
pub const SECTION_HEADER: usize = 12;

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SlotState {
    /// Nothing.
    Empty = 0,
    /// A record that is being written, or whose writer has died.
    Writing = 1,
    /// A whole record that nobody has read.
    Committed = 2,
    /// A record that was read: its slot may be used again.
    Consumed = 3,
}

impl SlotState {
    /// The state of that number.
    pub const fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::Empty,
            1 => Self::Writing,
            2 => Self::Committed,
            3 => Self::Consumed,
            _ => return None,
        })
    }
}

/// How a freeze ended, as far as its writer knew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Outcome {
    /// It goes on, or went on when the process died.
    Ongoing = 1,
    /// The loop turned again.
    Recovered = 2,
    /// The monitor was stopped before the end.
    Unknown = 3,
}

impl Outcome {
    /// The outcome of that number.
    pub const fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            1 => Self::Ongoing,
            2 => Self::Recovered,
            3 => Self::Unknown,
            _ => return None,
        })
    }
}

/// The types of sections, in the order of their worth, which is the order in which they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Section {
    /// What happened when.
    Record = 1,
    /// Which process.
    Process = 2,
    /// Which machine.
    System = 3,
    /// One thread; the first of these is the one that matters.
    Thread = 4,
    /// The images that frames refer to, then others.
    Images = 5,
    /// What was left out. A record without it is not complete.
    End = 6,
    /// Which signal ended the program. Comes second.
    Crash = 7,
    /// How severe a freeze is and what caused it. In the tail.
    Episode = 8,
    /// What the watched thread did while it was frozen. In the tail.
    Samples = 9,
    /// What the program told of itself.
    Told = 10,
    /// How the process and its machine were.
    Vitals = 11,
}

impl Section {
    /// The section of that number.
    pub const fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            1 => Self::Record,
            2 => Self::Process,
            3 => Self::System,
            4 => Self::Thread,
            5 => Self::Images,
            6 => Self::End,
            7 => Self::Crash,
            8 => Self::Episode,
            9 => Self::Samples,
            10 => Self::Told,
            11 => Self::Vitals,
            _ => return None,
        })
    }
}

/// No image, in a frame.
pub const NO_IMAGE: u32 = u32::MAX;
/// Bytes of a frame.
pub const FRAME_BYTES: usize = 24;
/// Bytes of a frame in the tree of samples.
pub const NODE_BYTES: usize = 12;

/// CRC-32C (Castagnoli, as in iSCSI) over several pieces as if they were one.
///
/// # Signal safety
/// Safe.
pub fn crc(pieces: &[&[u8]]) -> u32 {
    static TABLES: [[u32; 256]; 16] = *CRC.table();
    let entry = |table: &[u32; 256], byte: u8| table.get(usize::from(byte)).copied().unwrap_or(0);
    let [last, ..] = &TABLES;
    let mut crc = u32::MAX;
    for piece in pieces {
        // Sixteen bytes at a time: each has a table by its distance from the end.
        let (blocks, rest) = piece.as_chunks();
        for block in blocks {
            let block = (u128::from_le_bytes(*block) ^ u128::from(crc)).to_le_bytes();
            crc =
                block.iter().zip(TABLES.iter().rev()).fold(0, |crc, (byte, table)| crc ^ entry(table, *byte));
        }
        crc = rest.iter().fold(crc, |crc, byte| entry(last, crc as u8 ^ byte) ^ crc >> 8);
    }
    !crc
}

/// Its tables only: the crate's own loop over them has bounds to check.
const CRC: crc::Crc<u32, crc::Table<16>> = crc::Crc::<u32, crc::Table<16>>::new(&crc::CRC_32_ISCSI);

#[cfg(test)]
mod tests {
    #[test]
    fn the_checksum_is_the_published_one() {
        assert_eq!(super::crc(&[b"1234", b"56789"]), 0xe306_9283, "the check value of CRC-32/ISCSI");
    }

    #[test]
    fn the_checksum_of_any_pieces_is_that_of_the_crate_whose_tables_it_uses() {
        let bytes: [u8; 100] = core::array::from_fn(|at| (at * 37 + 11) as u8);
        for length in 0..bytes.len() {
            let expected = super::CRC.checksum(&bytes[..length]);
            for cut in [0, length / 3, length] {
                let (head, tail) = bytes[..length].split_at(cut);
                assert_eq!(super::crc(&[head, tail]), expected, "{length} bytes, cut at {cut}");
            }
        }
    }
}
