//! Encoded pointers, `DW_EH_PE_*` (LSB 5.0, chapter 10.5): a byte says how the number is stored (low four bits), what it
//! is relative to (next three), and whether it is the address of the pointer instead (the top bit).

use super::TableError;
use crate::memory::{Cursor, CutShort, Memory};

/// Nothing is stored.
pub(super) const OMIT: u8 = 0xff;
/// A plain address of 64 bits.
pub(super) const ABSOLUTE: u8 = 0x00;
/// Relative to the start of `.eh_frame_hdr`, 32 bits with a sign: what linkers write there.
pub(super) const DATA_SDATA4: u8 = DATA | SDATA4;

const FORMAT: u8 = 0x0f;
const ULEB: u8 = 0x01;
const UDATA2: u8 = 0x02;
const UDATA4: u8 = 0x03;
const UDATA8: u8 = 0x04;
const SIGNED: u8 = 0x08;
const SLEB: u8 = 0x09;
const SDATA2: u8 = 0x0a;
const SDATA4: u8 = 0x0b;
const SDATA8: u8 = 0x0c;

const RELATION: u8 = 0x70;
const PC: u8 = 0x10;
const TEXT: u8 = 0x20;
const DATA: u8 = 0x30;
const FUNCTION: u8 = 0x40;
const ALIGNED: u8 = 0x50;

const INDIRECT: u8 = 0x80;

/// What pointers can be relative to, beside their own address.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bases {
    pub(super) text: Option<u64>,
    /// The start of `.eh_frame_hdr`.
    pub(super) data: Option<u64>,
    pub(super) function: Option<u64>,
}

/// A pointer as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pointer {
    Direct(u64),
    /// The address of the pointer.
    Indirect(u64),
}

impl Pointer {
    /// Reads a pointer of this encoding; not for [`OMIT`].
    #[inline]
    pub(super) fn read(cursor: &mut Cursor<'_>, encoding: u8, bases: &Bases) -> Result<Self, TableError> {
        if encoding == PC | SDATA4 {
            let place = cursor.address();
            return Ok(Self::Direct(place.wrapping_add_signed((cursor.u32()? as i32).into())));
        }
        Self::read_any(cursor, encoding, bases)
    }

    #[inline(never)]
    fn read_any(cursor: &mut Cursor<'_>, encoding: u8, bases: &Bases) -> Result<Self, TableError> {
        let place = cursor.address();
        let base = match encoding & RELATION {
            ABSOLUTE => Some(0),
            PC => Some(place),
            TEXT => bases.text,
            DATA => bases.data,
            FUNCTION => bases.function,
            ALIGNED if encoding & FORMAT == 0 => {
                let padding = place.wrapping_neg() & 7;
                cursor.skip(padding)?;
                Some(0)
            }
            _ => return Err(TableError::PointerEncoding(encoding.into())),
        };
        let base = base.ok_or(TableError::NoBase(encoding.into()))?;
        let address = base.wrapping_add(number(cursor, encoding)?);
        Ok(if encoding & INDIRECT == 0 { Self::Direct(address) } else { Self::Indirect(address) })
    }

    /// The address that is meant.
    #[inline]
    pub(super) fn resolve<M: Memory>(self, memory: &mut M) -> Result<u64, TableError> {
        match self {
            Self::Direct(address) => Ok(address),
            Self::Indirect(address) => memory.read_u64(address).ok_or(TableError::Unreadable(address)),
        }
    }
}

/// A number in the format of this encoding, without what it is relative to.
#[inline(always)]
pub(super) fn number(cursor: &mut Cursor<'_>, encoding: u8) -> Result<u64, TableError> {
    let number: Result<u64, CutShort> = match encoding & FORMAT {
        SDATA4 => cursor.u32().map(|n| n as i32 as u64),
        UDATA4 => cursor.u32().map(u64::from),
        ABSOLUTE | SIGNED | UDATA8 | SDATA8 => cursor.u64(),
        UDATA2 => cursor.u16().map(u64::from),
        SDATA2 => cursor.u16().map(|n| n as i16 as u64),
        ULEB => cursor.uleb(),
        SLEB => cursor.sleb().map(|n| n as u64),
        _ => return Err(TableError::PointerEncoding(encoding.into())),
    };
    Ok(number?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::SliceMemory;

    const BASES: Bases = Bases { text: Some(0x10_0000), data: Some(0x20_0000), function: Some(0x30_0000) };

    /// Reads from the address 0x1001 on, and returns how many bytes were read, too.
    fn read(bytes: &[u8], encoding: u8, bases: &Bases) -> Result<(Pointer, u64), TableError> {
        let mut cursor = Cursor::new(0x1001, bytes, u64::MAX);
        let pointer = Pointer::read(&mut cursor, encoding, bases)?;
        Ok((pointer, cursor.address() - 0x1001))
    }

    fn direct(bytes: &[u8], encoding: u8) -> (u64, u64) {
        match read(bytes, encoding, &BASES) {
            Ok((Pointer::Direct(address), size)) => (address, size),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_format_has_its_size_and_sign() {
        let bytes = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0];
        let minus_two = -2i64 as u64;
        assert_eq!(direct(&bytes, 0x00), (minus_two, 8));
        assert_eq!(direct(&bytes, 0x01), (0x7fff_ffff_ffff_fffe, 9));
        assert_eq!(direct(&bytes, 0x02), (0xfffe, 2));
        assert_eq!(direct(&bytes, 0x03), (0xffff_fffe, 4));
        assert_eq!(direct(&bytes, 0x04), (minus_two, 8));
        assert_eq!(direct(&bytes, 0x08), (minus_two, 8));
        assert_eq!(direct(&bytes, 0x09), (minus_two, 9));
        assert_eq!(direct(&bytes, 0x0a), (minus_two, 2));
        assert_eq!(direct(&bytes, 0x0b), (minus_two, 4));
        assert_eq!(direct(&bytes, 0x0c), (minus_two, 8));
    }

    #[test]
    fn every_relation_has_its_base() {
        let bytes = [0xfc, 0xff, 0xff, 0xff];
        assert_eq!(direct(&bytes, 0x1b), (0xffd, 4));
        assert_eq!(direct(&bytes, 0x2b), (0xf_fffc, 4));
        assert_eq!(direct(&bytes, 0x3b), (0x1f_fffc, 4));
        assert_eq!(direct(&bytes, 0x4b), (0x2f_fffc, 4));
        let padded = [9, 9, 9, 9, 9, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(direct(&padded, 0x50), (0x0807_0605_0403_0201, 15), "from the next multiple of eight on");
        for encoding in [0x2b, 0x3b, 0x4b] {
            assert_eq!(read(&bytes, encoding, &Bases::default()), Err(TableError::NoBase(encoding.into())));
        }
    }

    #[test]
    fn an_indirect_pointer_is_read_from_memory() {
        let (pointer, size) = read(&[0xff, 0xff, 0xff, 0xff], 0x9b, &BASES).unwrap();
        assert_eq!((pointer, size), (Pointer::Indirect(0x1000), 4));
        let mut memory = SliceMemory::new(0x1000, &[1, 2, 0, 0, 0, 0, 0, 0]);
        assert_eq!(pointer.resolve(&mut memory), Ok(0x201));
        assert_eq!(Pointer::Indirect(0x1001).resolve(&mut memory), Err(TableError::Unreadable(0x1001)));
        assert_eq!(Pointer::Direct(7).resolve(&mut memory), Ok(7));
    }

    #[test]
    fn unknown_encodings_and_missing_bytes_are_errors() {
        for encoding in [0x05, 0x07, 0x0d, 0x0f, 0x60, 0x70, 0x5b, 0xff] {
            assert_eq!(
                read(&[0; 16], encoding, &BASES),
                Err(TableError::PointerEncoding(encoding.into())),
                "{encoding:x}"
            );
        }
        assert_eq!(read(&[0; 3], 0x1b, &BASES), Err(TableError::CutShort));
        assert_eq!(read(&[0; 7], 0x00, &BASES), Err(TableError::CutShort));
        assert_eq!(read(&[0x80], 0x01, &BASES), Err(TableError::CutShort));
    }
}
