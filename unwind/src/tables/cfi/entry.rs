//! The entries of `.eh_frame`: CIEs, which functions share, and FDEs, one a function.
//!
//! ```text
//! CIE: length │ 0              │ version │ augmentation string │ factors, return column │ augmentation │ instructions
//! FDE: length │ distance to CIE │ code start, size │ augmentation │ instructions
//! ```
//!
//! The length counts what follows it; 0xffffffff says that the real length of 64 bits follows. The second field has 32
//! bits either way.

use super::TableError;
use super::pointer::{ABSOLUTE, Bases, OMIT, Pointer, number};
use super::program::Windows;
use crate::images::Range;
use crate::memory::{Cursor, Memory, Window};

/// How many bytes of an entry are asked for: more than the fields before the instructions take in any real table.
const HEAD: usize = 128;
const LONG_LENGTH: u32 = u32::MAX;

/// The fields that all entries begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The address of the field after them.
    pub(super) fields: u64,
    /// Where the entry ends and the next begins.
    pub(super) end: u64,
    /// The address of the CIE, if this is an FDE.
    pub(super) cie: Option<u64>,
}

impl Head {
    /// Reads the head of an entry inside `extent`, and leaves the cursor behind it, confined to the entry. None at the
    /// terminator, a length of zero.
    #[inline]
    pub(super) fn read(cursor: &mut Cursor<'_>, extent: Range) -> Result<Option<Self>, TableError> {
        let address = cursor.address();
        if !extent.contains(address) {
            return Err(TableError::EntryOutside(address));
        }
        if cursor.left() == 0 {
            return Err(TableError::Unreadable(address));
        }
        let length = match cursor.u32()? {
            0 => return Ok(None),
            LONG_LENGTH => cursor.u64()?,
            length => length.into(),
        };
        let place = cursor.address();
        let end = place.checked_add(length).filter(|end| *end <= extent.end);
        let end = end.ok_or(TableError::EntryOutside(address))?;
        *cursor = cursor.until(end);
        let distance = cursor.u32()?;
        let cie = (distance != 0).then(|| place.wrapping_sub(distance.into()));
        Ok(Some(Self { fields: cursor.address(), end, cie }))
    }
}

/// What the functions of a CIE have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cie {
    pub(super) address: u64,
    pub(super) code_factor: u64,
    pub(super) data_factor: i64,
    pub(super) return_column: u64,
    /// How addresses in FDEs are encoded.
    pub(super) encoding: u8,
    /// Whether the length of each augmentation is stored.
    pub(super) sized: bool,
    pub(super) signal_frame: bool,
    pub(super) b_key: bool,
    pub(super) instructions: Range,
}

impl Cie {
    #[inline]
    pub(super) fn read<M: Memory, const N: usize>(
        memory: &mut M,
        window: &mut Window<N>,
        extent: Range,
        bases: &Bases,
        address: u64,
    ) -> Result<Self, TableError> {
        let mut cursor = Cursor::new(address, window.at(memory, address, HEAD), extent.end);
        let head = Head::read(&mut cursor, extent)?.filter(|head| head.cie.is_none());
        let head = head.ok_or(TableError::NotCie(address))?;
        if let Some(cie) = Self::read_usual(address, cursor, head.end) {
            return Ok(cie);
        }
        let version = cursor.u8()?;
        if !matches!(version, 1 | 3 | 4) {
            return Err(TableError::CieVersion(version.into()));
        }
        let mut augmentation = cursor.string()?;
        if version == 4 {
            let [address_size, segment_size] = cursor.u16()?.to_le_bytes();
            if address_size != 8 || segment_size != 0 {
                return Err(TableError::AddressSize(address_size.into()));
            }
        }
        if let Some(rest) = augmentation.strip_prefix(b"eh") {
            // GCC 2: a pointer to data of the runtime's.
            cursor.skip(8)?;
            augmentation = rest;
        }
        let code_factor = cursor.uleb()?;
        let data_factor = cursor.sleb()?;
        let return_column = if version == 1 { cursor.u8()?.into() } else { cursor.uleb()? };
        let mut cie = Self {
            address,
            code_factor,
            data_factor,
            return_column,
            encoding: ABSOLUTE,
            sized: false,
            signal_frame: false,
            b_key: false,
            instructions: Range { start: 0, end: head.end },
        };
        cie.augment(augmentation, &mut cursor, bases)?;
        Ok(cie)
    }

    /// The CIE of nearly all code without exception tables, at one glance: version 1, "zR", factors and column of a byte
    /// each. Any other goes the long way, and with the same result this one would.
    #[inline]
    fn read_usual(address: u64, mut cursor: Cursor<'_>, end: u64) -> Option<Self> {
        let head = cursor.u64().ok()?.to_le_bytes();
        let [1, b'z', b'R', 0, code_factor @ ..0x80, data_factor @ ..0x80, return_column, 1] = head else {
            return None;
        };
        let encoding = cursor.u8().ok()?;
        Some(Self {
            address,
            code_factor: code_factor.into(),
            // The sign is bit 6.
            data_factor: i64::from((data_factor << 1) as i8 >> 1),
            return_column: return_column.into(),
            encoding,
            sized: true,
            signal_frame: false,
            b_key: false,
            instructions: Range { start: cursor.address(), end },
        })
    }

    /// Reads the augmentation that `letters` describe; the instructions begin behind it.
    #[inline]
    fn augment(&mut self, letters: &[u8], cursor: &mut Cursor<'_>, bases: &Bases) -> Result<(), TableError> {
        let mut end = None;
        for letter in letters {
            match letter {
                b'z' if !self.sized => {
                    let size = cursor.uleb()?;
                    end = Some(skipped(cursor.address(), size, self.instructions.end)?);
                    self.sized = true;
                }
                b'R' => self.encoding = cursor.u8()?,
                // The personality and the kind of its data serve exceptions, not walks.
                b'P' => match cursor.u8()? {
                    OMIT => {}
                    encoding => {
                        Pointer::read(
                            cursor,
                            encoding & 0x7f,
                            &Bases { function: Some(0), ..or_zero(bases) },
                        )?;
                    }
                },
                b'L' => _ = cursor.u8()?,
                b'S' => self.signal_frame = true,
                b'B' => self.b_key = true,
                // The frame's memory is tagged (MTE): of no concern to a reader.
                b'G' => {}
                // The length says where to go on, as in libgcc.
                _ if self.sized => break,
                _ => return Err(TableError::Augmentation((*letter).into())),
            }
        }
        self.instructions.start = end.unwrap_or(cursor.address());
        Ok(())
    }
}

/// The personality is only passed over: what it is relative to does not matter.
const fn or_zero(bases: &Bases) -> Bases {
    let text = if bases.text.is_some() { bases.text } else { Some(0) };
    let data = if bases.data.is_some() { bases.data } else { Some(0) };
    Bases { text, data, function: bases.function }
}

/// `size` bytes after `address`, which must not lie beyond the entry's end.
#[inline]
fn skipped(address: u64, size: u64, end: u64) -> Result<u64, TableError> {
    address.checked_add(size).filter(|to| *to <= end).ok_or(TableError::CutShort)
}

/// A function's code and its instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fde {
    pub(super) code: Range,
    pub(super) instructions: Range,
}

impl Fde {
    /// Reads the fields behind the head.
    #[inline]
    pub(super) fn read<M: Memory, const N: usize>(
        memory: &mut M,
        window: &mut Window<N>,
        bases: &Bases,
        head: &Head,
        cie: &Cie,
    ) -> Result<Self, TableError> {
        let mut cursor = Cursor::new(head.fields, window.at(memory, head.fields, HEAD), head.end);
        let start = Pointer::read(&mut cursor, cie.encoding, bases)?;
        let size = number(&mut cursor, cie.encoding)?;
        let instructions = if cie.sized {
            let augmentation = cursor.uleb()?;
            skipped(cursor.address(), augmentation, head.end)?
        } else {
            cursor.address()
        };
        let start = start.resolve(memory)?;
        let end = start.checked_add(size).ok_or(TableError::CodeRange(start))?;
        Ok(Self { code: Range { start, end }, instructions: Range { start: instructions, end: head.end } })
    }
}

/// The FDE at `address`, and its CIE.
#[inline]
pub(super) fn fde_at<M: Memory>(
    memory: &mut M,
    windows: Windows<'_>,
    extent: Range,
    bases: Bases,
    address: u64,
) -> Result<(Fde, Cie), TableError> {
    let mut cursor = Cursor::new(address, windows.fde.at(memory, address, HEAD), extent.end);
    let head = Head::read(&mut cursor, extent)?;
    let (head, cie) = head.and_then(|head| Some((head, head.cie?))).ok_or(TableError::NotFde(address))?;
    let cie = Cie::read(memory, windows.cie, extent, &bases, cie)?;
    Ok((Fde::read(memory, windows.fde, &bases, &head, &cie)?, cie))
}
