//! Bytes into a buffer that may be too small.

/// Writes little-endian fields; what does not fit is not written, and the writer remembers it.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    out: &'a mut [u8],
    used: usize,
    overflowed: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(out: &'a mut [u8]) -> Self {
        Self { out, used: 0, overflowed: false }
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn room(&self) -> usize {
        self.out.len().saturating_sub(self.used)
    }

    /// Whether everything since the start, or since the last [`rewind`](Self::rewind), has fit.
    pub(super) fn fits(&self) -> bool {
        !self.overflowed
    }

    /// Forgets what was written behind `used`.
    pub(super) fn rewind(&mut self, used: usize) {
        self.used = used.min(self.used);
        self.overflowed = false;
    }

    pub(super) fn written(&self, from: usize) -> &[u8] {
        self.out.get(from..self.used).unwrap_or(&[])
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        if !self.overflowed && self.put(self.used, bytes) {
            self.used = self.used.saturating_add(bytes.len());
        } else {
            self.overflowed = true;
        }
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    /// A length in two bytes and that many bytes: at most 65,535, the rest is cut off.
    pub(super) fn string(&mut self, bytes: &[u8]) {
        let bytes = bytes.get(..usize::from(u16::MAX)).unwrap_or(bytes);
        self.u16(bytes.len() as u16);
        self.bytes(bytes);
    }

    /// Overwrites bytes that were written earlier.
    pub(super) fn patch(&mut self, at: usize, bytes: &[u8]) {
        self.put(at, bytes);
    }

    /// All of the bytes, or none if they do not fit.
    fn put(&mut self, at: usize, bytes: &[u8]) -> bool {
        let room = self.out.get_mut(at..).and_then(|room| room.get_mut(..bytes.len()));
        room.map(|room| room.copy_from_slice(bytes)).is_some()
    }
}
