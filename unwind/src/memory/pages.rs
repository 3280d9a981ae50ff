//! Pages of a memory that is slow to read, kept from one walk to the next.

use super::Memory;

const PAGE: usize = 4096;
const PAGES: usize = 64;

/// A cache of pages, direct-mapped: for unwind tables, which do not change while their image is loaded. Through the
/// kernel a read costs about 900 ns whatever its size; from here a few. 260 KiB, `const` constructible.
#[derive(Debug)]
pub struct Pages {
    pages: [Page; PAGES],
}

#[derive(Clone, Copy, Debug)]
struct Page {
    address: u64,
    filled: usize,
    bytes: [u8; PAGE],
}

impl Pages {
    /// No pages.
    pub const fn new() -> Self {
        Self { pages: [Page { address: 0, filled: 0, bytes: [0; PAGE] }; PAGES] }
    }

    /// Forgets all pages: their images may be gone.
    ///
    /// # Signal safety
    /// Safe.
    pub fn forget(&mut self) {
        self.pages.iter_mut().for_each(|page| page.filled = 0);
    }

    /// `memory`, read through these pages.
    pub const fn over<'a, M: Memory>(&'a mut self, memory: &'a mut M) -> Paged<'a, M> {
        Paged { pages: self, memory }
    }
}

impl Default for Pages {
    fn default() -> Self {
        Self::new()
    }
}

/// See [`Pages::over`].
#[derive(Debug)]
pub struct Paged<'a, M> {
    pages: &'a mut Pages,
    memory: &'a mut M,
}

impl<M: Memory> Paged<'_, M> {
    /// The bytes of the page of `address` from there on; empty if they cannot be read.
    fn rest_of_page(&mut self, address: u64) -> &[u8] {
        let offset = (address % PAGE as u64) as usize;
        let start = address.wrapping_sub(offset as u64);
        let index = (start / PAGE as u64) as usize % PAGES;
        let Some(page) = self.pages.pages.get_mut(index) else { return &[] };
        if page.address != start || page.filled == 0 {
            page.address = start;
            page.filled = self.memory.read(start, &mut page.bytes);
        }
        page.bytes.get(offset..page.filled).unwrap_or(&[])
    }
}

impl<M: Memory> Memory for Paged<'_, M> {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        let mut copied = 0usize;
        while let Some(rest) = out.get_mut(copied..)
            && !rest.is_empty()
            && let Some(from) = address.checked_add(copied as u64)
        {
            let bytes = self.rest_of_page(from);
            let count = rest.iter_mut().zip(bytes).map(|(to, from)| *to = *from).count();
            if count == 0 {
                // A memory that does not begin at a page: what of it shares a page with nothing is read as it is.
                return copied.saturating_add(self.memory.read(from, rest));
            }
            copied = copied.saturating_add(count);
        }
        copied
    }

    #[inline]
    fn bytes(&self, address: u64) -> Option<&[u8]> {
        self.memory.bytes(address)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::memory::SliceMemory;
    use std::boxed::Box;
    use std::vec::Vec;

    /// Memory that lends nothing and counts its reads.
    struct Counted<'a>(SliceMemory<'a>, u32);

    impl Memory for Counted<'_> {
        fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
            self.1 += 1;
            self.0.read(address, out)
        }
    }

    #[test]
    fn a_page_is_read_once_and_reads_may_cross_pages() {
        let bytes: Vec<u8> = (0..3 * PAGE + 100).map(|n| (n / 7) as u8).collect();
        let base = 16 * PAGE as u64;
        let mut memory = Counted(SliceMemory::new(base, &bytes), 0);
        let mut pages = Box::new(Pages::new());
        let mut out = [0; 64];
        for _ in 0..10 {
            let mut paged = pages.over(&mut memory);
            assert_eq!(paged.read(base + PAGE as u64 - 30, &mut out), 64);
            assert_eq!(out, bytes[PAGE - 30..PAGE + 34]);
            assert_eq!(paged.read_u64(base + 8), Some(u64::from_le_bytes(bytes[8..16].try_into().unwrap())));
        }
        assert_eq!(memory.1, 2);
        let end = base + bytes.len() as u64;
        assert_eq!(pages.over(&mut memory).read(end - 10, &mut out), 10, "what is there");
        assert_eq!(pages.over(&mut memory).read(end, &mut out), 0);
        pages.forget();
        pages.over(&mut memory).read(base, &mut out);
        assert_eq!(memory.1, 6, "two pages, a short page and a try behind it for each end, and one again");
    }

    #[test]
    fn pages_of_the_same_place_in_the_cache_replace_each_other() {
        let bytes: Vec<u8> = (0..2 * PAGES * PAGE).map(|n| (n / PAGE) as u8).collect();
        let mut memory = Counted(SliceMemory::new(0, &bytes), 0);
        let mut pages = Box::new(Pages::new());
        for (address, expected) in [(5, 0), (5 + (PAGES * PAGE) as u64, PAGES as u8), (5, 0)] {
            let mut out = [255];
            assert_eq!((pages.over(&mut memory).read(address, &mut out), out), (1, [expected]));
        }
        assert_eq!(memory.1, 3);
    }

    #[test]
    fn memory_that_begins_inside_a_page_is_read_all_the_same() {
        let bytes = [1, 2, 3, 4];
        let mut memory = SliceMemory::new(100, &bytes);
        let mut out = [0; 4];
        let mut pages = Box::new(Pages::new());
        assert_eq!(pages.over(&mut memory).read(100, &mut out), 4);
        assert_eq!(out, bytes);
    }
}
