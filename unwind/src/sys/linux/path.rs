//! Short paths, without an allocation.

use core::ffi::CStr;

/// A short path, always terminated: the last byte is never written.
#[derive(Debug)]
pub(crate) struct Path {
    bytes: [u8; 48],
    length: usize,
}

impl Path {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; 48], length: 0 }
    }

    /// Adds a part; one that does not fit is left out whole.
    pub(crate) fn push(&mut self, part: &[u8]) {
        let Some((_terminator, room)) = self.bytes.split_last_mut() else { return };
        if let Some(room) = room.get_mut(self.length..).and_then(|room| room.get_mut(..part.len())) {
            room.copy_from_slice(part);
            self.length = self.length.saturating_add(part.len());
        }
    }

    pub(crate) fn push_decimal(&mut self, number: u32) {
        let mut digits = [0u8; 10];
        let mut rest = number;
        let mut used = 0usize;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
            used = used.saturating_add(1);
            if rest == 0 {
                break;
            }
        }
        self.push(digits.get(digits.len().saturating_sub(used)..).unwrap_or(&[]));
    }

    pub(crate) fn terminated(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn paths_are_built_for_every_id() {
        for number in [0, 1, 9, 10, 4_194_304, i32::MAX as u32, u32::MAX] {
            let mut path = Path::new();
            path.push(b"/proc/self/task/");
            path.push_decimal(number);
            path.push(b"/syscall");
            assert_eq!(path.terminated().to_str().unwrap(), std::format!("/proc/self/task/{number}/syscall"));
        }
        let mut path = Path::new();
        path.push(&[b'a'; 48]);
        assert_eq!(path.terminated(), c"", "what does not fit is left out whole");
    }
}
