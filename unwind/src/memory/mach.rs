//! This process's memory, through the kernel.

use super::Memory;
use crate::sys;

/// The smallest page that any system has; larger ones are whole multiples.
const PAGE: u64 = 4096;

/// The memory of the calling process, copied by the kernel: an unmapped or protected page ends a read, it never faults.
///
/// `vm_read_overwrite` is all or nothing, and a window of a stack mostly reaches beyond the stack's end: so the kernel
/// is asked first how far the readable memory goes, and one copy brings so much. A small read is tried at once.
#[derive(Debug, Default)]
pub struct ProcessMemory {
    _private: (),
}

impl ProcessMemory {
    /// Opens nothing and asks nothing.
    pub const fn new() -> Self {
        Self { _private: () }
    }
}

impl Memory for ProcessMemory {
    /// # Signal safety
    /// Safe: `vm_read_overwrite` and `vm_region_64`.
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        if out.len() <= PAGE as usize && (out.is_empty() || sys::read_whole(address, out)) {
            return out.len();
        }
        let readable = readable_from(address, out.len() as u64) as usize;
        let Some(prefix) = out.get_mut(..readable).filter(|prefix| !prefix.is_empty()) else { return 0 };
        if sys::read_whole(address, prefix) { readable } else { read_pages(address, prefix) }
    }
}

/// How many bytes from `address` on are readable by their protection, `most` at the most.
fn readable_from(address: u64, most: u64) -> u64 {
    /// More than a window of a stack has in practice: the bound on the work for memory that is all in pieces.
    const MAX_REGIONS: usize = 32;
    let end = address.saturating_add(most);
    let mut reached = address;
    for _ in 0..MAX_REGIONS {
        match sys::region(reached) {
            Some(region) if region.readable && region.start <= reached && region.end > reached => {
                reached = region.end;
            }
            _ => break,
        }
        if reached >= end {
            break;
        }
    }
    reached.min(end).saturating_sub(address)
}

/// Page by page, for memory whose protection permits what its pager cannot do: a mapped file that was cut short.
fn read_pages(address: u64, out: &mut [u8]) -> usize {
    let mut copied = 0usize;
    while let Some(rest) = out.get_mut(copied..)
        && !rest.is_empty()
    {
        let Some(from) = address.checked_add(copied as u64) else { break };
        let chunk = PAGE.saturating_sub(from % PAGE).min(rest.len() as u64) as usize;
        if !rest.get_mut(..chunk).is_some_and(|chunk| sys::read_whole(from, chunk)) {
            break;
        }
        copied = copied.saturating_add(chunk);
    }
    copied
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;

    /// The largest page of any such system.
    const PAGE: usize = 16_384;

    /// Two pages, the second one not readable, and the address of the first.
    fn page_before_a_hole(hole: i32) -> u64 {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let two = unsafe { libc::mmap(core::ptr::null_mut(), 2 * PAGE, protection, flags, -1, 0) };
        assert_ne!(two, libc::MAP_FAILED);
        // SAFETY: the second page of the mapping made above, which nothing else refers to.
        assert_eq!(unsafe { libc::mprotect(two.byte_add(PAGE), PAGE, hole) }, 0);
        // SAFETY: the first page is mapped, writable and not otherwise used.
        unsafe { two.cast::<[u8; PAGE]>().write([0x5a; PAGE]) };
        two as u64
    }

    #[test]
    fn a_read_gives_the_prefix_before_a_page_that_is_not_readable() {
        let page = page_before_a_hole(libc::PROT_NONE);
        let mut memory = ProcessMemory::new();
        let mut out = vec![0; 3 * PAGE];
        assert_eq!(memory.read(page + 100, &mut out), PAGE - 100);
        assert!(out[..PAGE - 100].iter().all(|byte| *byte == 0x5a));
        assert_eq!(memory.read(page + PAGE as u64, &mut out), 0);
        assert_eq!(memory.read(0, &mut out), 0, "the null page");
        assert_eq!(memory.read(u64::MAX - 8, &mut out), 0, "the top of the address space");
        assert_eq!(memory.read_u64(page + PAGE as u64 - 8), Some(0x5a5a_5a5a_5a5a_5a5a));
        assert_eq!(memory.read_u64(page + PAGE as u64 - 7), None);
    }

    #[test]
    fn regions_of_different_protection_are_read_as_one() {
        let page = page_before_a_hole(libc::PROT_READ);
        let mut out = vec![1; 2 * PAGE];
        assert_eq!(ProcessMemory::new().read(page, &mut out), 2 * PAGE);
        assert!(out[..PAGE].iter().all(|byte| *byte == 0x5a) && out[PAGE..].iter().all(|byte| *byte == 0));
    }
}
