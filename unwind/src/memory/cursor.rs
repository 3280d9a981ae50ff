//! Little-endian fields, one after the other.

/// The bytes end in the middle of a field, or a number takes more than 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CutShort;

/// A place in bytes whose address is known.
///
/// ```text
///          address()                 end
///  ───────────┬───────────────────────┬───▶
///  read       │ bytes                 │
/// ```
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    end: u64,
}

impl<'a> Cursor<'a> {
    /// `bytes` lie at `address`; what lies beyond the address `limit` is left out.
    #[inline]
    pub(crate) fn new(address: u64, bytes: &'a [u8], limit: u64) -> Self {
        let size = usize::try_from(limit.saturating_sub(address)).unwrap_or(usize::MAX).min(bytes.len());
        let bytes = bytes.get(..size).unwrap_or(&[]);
        Self { bytes, end: address.wrapping_add(size as u64) }
    }

    /// The same place; what lies beyond the address `limit` is left out.
    #[inline]
    pub(crate) fn until(self, limit: u64) -> Self {
        Self::new(self.address(), self.bytes, limit)
    }

    /// The address of the next byte.
    #[inline]
    pub(crate) fn address(&self) -> u64 {
        self.end.wrapping_sub(self.bytes.len() as u64)
    }

    /// The address behind the last byte.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// How many bytes are left.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        self.bytes.len()
    }

    /// Goes on `count` bytes, even beyond those at hand: then none are left, and the address is right all the same.
    #[inline]
    pub(crate) fn skip(&mut self, count: u64) -> Result<(), CutShort> {
        let to = self.address().checked_add(count).ok_or(CutShort)?;
        match usize::try_from(count).ok().and_then(|count| self.bytes.get(count..)) {
            Some(rest) => self.bytes = rest,
            None => *self = Self { bytes: &[], end: to },
        }
        Ok(())
    }

    /// The bytes up to the next zero, which is passed over.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<&'a [u8], CutShort> {
        let length = self.bytes.iter().position(|byte| *byte == 0).ok_or(CutShort)?;
        let (string, rest) = self.bytes.split_at_checked(length).ok_or(CutShort)?;
        self.bytes = rest.get(1..).ok_or(CutShort)?;
        Ok(string)
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], CutShort> {
        let (field, rest) = self.bytes.split_first_chunk().ok_or(CutShort)?;
        self.bytes = rest;
        Ok(*field)
    }

    #[inline(always)]
    pub(crate) fn u8(&mut self) -> Result<u8, CutShort> {
        let (byte, rest) = self.bytes.split_first().ok_or(CutShort)?;
        self.bytes = rest;
        Ok(*byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, CutShort> {
        self.take().map(u16::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, CutShort> {
        self.take().map(u32::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Result<u64, CutShort> {
        self.take().map(u64::from_le_bytes)
    }

    /// An unsigned LEB128 number.
    #[inline(always)]
    pub(crate) fn uleb(&mut self) -> Result<u64, CutShort> {
        match self.u8()? {
            byte @ ..0x80 => Ok(u64::from(byte)),
            byte => {
                let (value, _, rest) = self.rest_of_leb(byte)?;
                *self = rest;
                Ok(value)
            }
        }
    }

    /// A signed LEB128 number.
    #[inline]
    pub(crate) fn sleb(&mut self) -> Result<i64, CutShort> {
        let (value, bits) = match self.u8()? {
            byte @ ..0x80 => (u64::from(byte), 7),
            byte => {
                let (value, bits, rest) = self.rest_of_leb(byte)?;
                *self = rest;
                (value, bits)
            }
        };
        let unused = 64u32.saturating_sub(bits);
        Ok(((value << unused) as i64) >> unused)
    }

    /// The value of a number of several bytes, and how many bits it was written with. At most ten bytes are read; what
    /// the tenth has beyond 64 bits must be the sign.
    ///
    /// By value, so that the place of the usual, short numbers can stay in registers.
    #[inline(never)]
    fn rest_of_leb(mut self, first: u8) -> Result<(u64, u32, Self), CutShort> {
        let mut value = u64::from(first & 0x7f);
        let mut bits = 7u32;
        loop {
            let byte = self.u8()?;
            let part = u64::from(byte & 0x7f);
            if bits == 63 && !matches!(byte, 0 | 1 | 0x7f) {
                return Err(CutShort);
            }
            value |= part << bits;
            bits = bits.saturating_add(7);
            if byte & 0x80 == 0 {
                return Ok((value, bits, self));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(bytes: &[u8]) -> Cursor<'_> {
        Cursor::new(100, bytes, u64::MAX)
    }

    #[test]
    fn numbers_of_variable_length_follow_the_examples_of_the_standard() {
        // DWARF 5, figures 22 and 23.
        let unsigned: [(&[u8], u64); 6] = [
            (&[2], 2),
            (&[127], 127),
            (&[0x80, 1], 128),
            (&[0x81, 1], 129),
            (&[0x82, 1], 130),
            (&[0xb9, 0x64], 12857),
        ];
        for (bytes, value) in unsigned {
            assert_eq!(at(bytes).uleb(), Ok(value));
        }
        let signed: [(&[u8], i64); 8] = [
            (&[2], 2),
            (&[0x7e], -2),
            (&[0xff, 0], 127),
            (&[0x81, 0x7f], -127),
            (&[0x80, 1], 128),
            (&[0x80, 0x7f], -128),
            (&[0x81, 1], 129),
            (&[0xff, 0x7e], -129),
        ];
        for (bytes, value) in signed {
            assert_eq!(at(bytes).sleb(), Ok(value));
        }
    }

    #[test]
    fn numbers_may_fill_64_bits_and_no_more() {
        let full = |last| [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, last];
        assert_eq!(at(&full(1)).uleb(), Ok(u64::MAX));
        assert_eq!(at(&full(0)).sleb(), Ok(i64::MAX));
        assert_eq!(at(&full(0x7f)).sleb(), Ok(-1));
        assert_eq!(at(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f]).sleb(), Ok(i64::MIN));
        assert_eq!(at(&full(2)).uleb(), Err(CutShort));
        assert_eq!(at(&[0x80; 11]).uleb(), Err(CutShort));
        assert_eq!(at(&[0x80]).sleb(), Err(CutShort));
        assert_eq!(at(&[]).uleb(), Err(CutShort));
    }

    #[test]
    fn the_address_follows_the_fields_and_a_skip_may_leave_the_bytes() {
        let mut cursor = at(&[1, 2, 0, b'z', 0, 9]);
        assert_eq!((cursor.u16(), cursor.address()), (Ok(0x201), 102));
        assert_eq!((cursor.string(), cursor.string()), (Ok(&b""[..]), Ok(&b"z"[..])));
        assert_eq!((cursor.address(), cursor.left(), cursor.u16()), (105, 1, Err(CutShort)));
        assert_eq!((cursor.skip(1000), cursor.address(), cursor.u8()), (Ok(()), 1105, Err(CutShort)));
        assert_eq!(cursor.skip(u64::MAX), Err(CutShort));
        assert_eq!(Cursor::new(100, &[1, 2, 3], 102).left(), 2);
        assert_eq!(Cursor::new(100, &[1, 2, 3], 50).left(), 0);
    }
}
