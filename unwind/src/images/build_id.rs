//! What tells a build of an image from all others.

/// Longer build ids than any in use (SHA-1: 20 bytes; a few schemes: 32).
pub(super) const MAX_BUILD_ID: usize = 64;

/// A build id, of any length up to [`MAX_BUILD_ID`]: a GNU build id, or the UUID of a Mach-O image.
pub(super) struct BuildId {
    pub(super) bytes: [u8; MAX_BUILD_ID],
    pub(super) length: usize,
}

impl BuildId {
    pub(super) const NONE: Self = Self { bytes: [0; MAX_BUILD_ID], length: 0 };

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }
}
