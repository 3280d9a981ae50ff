//! A few bytes of a memory, kept while they are read field by field.

use super::Memory;

/// What was last read of a memory: it turns many small reads nearby into one. Memory that can lend its bytes
/// ([`Memory::bytes`]) is used directly.
#[derive(Clone, Debug)]
pub(crate) struct Window<const N: usize> {
    base: u64,
    filled: usize,
    buffer: [u8; N],
}

impl<const N: usize> Window<N> {
    pub(crate) const fn new() -> Self {
        Self { base: 0, filled: 0, buffer: [0; N] }
    }

    /// Forgets what was read: the next read may be of another memory, or of another time.
    pub(crate) const fn forget(&mut self) {
        self.filled = 0;
    }

    /// The bytes from `address` on, at least `wanted` (up to `N`) of them unless the memory ends before.
    #[inline]
    pub(crate) fn at<'a, M: Memory>(
        &'a mut self,
        memory: &'a mut M,
        address: u64,
        wanted: usize,
    ) -> &'a [u8] {
        if M::bytes(memory, address).is_some() {
            return M::bytes(memory, address).unwrap_or(&[]);
        }
        self.copied(memory, address, wanted)
    }

    #[inline(never)]
    fn copied<M: Memory>(&mut self, memory: &mut M, address: u64, wanted: usize) -> &[u8] {
        let held = self
            .offset(address)
            .filter(|offset| self.filled.checked_sub(*offset).is_some_and(|rest| rest >= wanted.min(N)));
        let offset = match held {
            Some(offset) => offset,
            None => {
                self.base = address;
                self.filled = memory.read(address, &mut self.buffer).min(N);
                0
            }
        };
        self.buffer.get(offset..self.filled).unwrap_or(&[])
    }

    fn offset(&self, address: u64) -> Option<usize> {
        address.checked_sub(self.base).and_then(|offset| usize::try_from(offset).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory that lends nothing and counts its reads.
    struct Counted<'a>(&'a [u8], u32);

    impl Memory for Counted<'_> {
        fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
            self.1 += 1;
            let tail = self.0.get(address as usize..).unwrap_or(&[]);
            out.iter_mut().zip(tail).map(|(to, from)| *to = *from).count()
        }
    }

    #[test]
    fn reads_nearby_are_one_read() {
        let bytes: [u8; 100] = core::array::from_fn(|n| n as u8);
        let mut memory = Counted(&bytes, 0);
        let mut window = Window::<16>::new();
        assert_eq!(window.at(&mut memory, 10, 4), &bytes[10..26]);
        assert_eq!(window.at(&mut memory, 20, 6), &bytes[20..26]);
        assert_eq!(memory.1, 1);
        assert_eq!(window.at(&mut memory, 20, 7), &bytes[20..36], "one byte more than was held");
        assert_eq!(window.at(&mut memory, 19, 1), &bytes[19..35], "below what was held");
        assert_eq!(window.at(&mut memory, 90, 200), &bytes[90..], "the end of memory");
        assert_eq!(window.at(&mut memory, 100, 1), &[] as &[u8]);
        assert_eq!(memory.1, 5);
        window.forget();
        assert_eq!(window.at(&mut memory, 0, 1).len(), 16);
        assert_eq!(memory.1, 6);
    }
}
