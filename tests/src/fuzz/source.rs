//! A fuzzer's bytes as values.

use freezeframe_arch::Architecture;

/// Takes values off the front of the bytes; zeros once they have ended.
pub(super) struct Source<'a>(pub(super) &'a [u8]);

impl<'a> Source<'a> {
    pub(super) fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Bytes behind their length, in one byte.
    pub(super) fn few(&mut self) -> &'a [u8] {
        let length = self.u8();
        self.bytes(length.into())
    }

    /// Bytes behind their length, in two.
    pub(super) fn many(&mut self) -> &'a [u8] {
        let length = self.u16();
        self.bytes(length.into())
    }

    pub(super) fn u8(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from(self.u8()) | u16::from(self.u8()) << 8
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from(self.u32()) | u64::from(self.u32()) << 32
    }

    /// Overwrites bytes here and there, as the rest of the input says: where, and with what.
    pub(super) fn damage(&mut self, bytes: &mut [u8]) {
        while !self.0.is_empty() {
            let (at, value) = (usize::from(self.u16()), self.u8());
            let at = at % bytes.len().max(1);
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
    }
}

pub(super) const fn architecture(flags: u8) -> Architecture {
    if flags & 1 == 0 { Architecture::X86_64 } else { Architecture::Arm64 }
}
