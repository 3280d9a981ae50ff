//! A stopped process's memory, through the kernel.

use freezeframe_unwind::memory::Memory;

const PAGE: usize = 4096;
/// More pages than the frames of a test's stack lie in, as a rule.
const PAGES: usize = 16;

/// Copies from `address` of process `pid` on and returns how many bytes could be read.
pub fn read_process(pid: i32, address: u64, out: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: out.len() };
    // SAFETY: the kernel writes at most `out.len()` bytes to `out`, and checks the other side.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).unwrap_or(0)
}

/// The memory of a process that stands still, read by the page and kept until [`forget`](Self::forget).
#[derive(Debug)]
pub struct StoppedMemory {
    pid: i32,
    pages: Vec<Page>,
    used: usize,
}

#[derive(Debug)]
struct Page {
    address: u64,
    filled: usize,
    bytes: [u8; PAGE],
}

impl StoppedMemory {
    /// The memory of process `pid`.
    pub fn new(pid: i32) -> Self {
        Self { pid, pages: Vec::new(), used: 0 }
    }

    /// To be called whenever the process has run.
    pub fn forget(&mut self) {
        self.used = 0;
    }

    /// The index of a page that is kept.
    fn page(&mut self, start: u64) -> usize {
        let kept = self.pages[..self.used].iter().position(|page| page.address == start);
        kept.unwrap_or_else(|| {
            let index = self.used % PAGES;
            if index == self.pages.len() {
                self.pages.push(Page { address: 0, filled: 0, bytes: [0; PAGE] });
            }
            self.used = (index + 1).max(self.used.min(PAGES));
            let page = &mut self.pages[index];
            page.address = start;
            page.filled = read_process(self.pid, start, &mut page.bytes);
            index
        })
    }
}

impl Memory for StoppedMemory {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        let mut copied = 0;
        while copied < out.len()
            && let Some(from) = address.checked_add(copied as u64)
        {
            let offset = (from % PAGE as u64) as usize;
            let index = self.page(from - offset as u64);
            let page = &self.pages[index];
            let Some(rest) = page.bytes[..page.filled].get(offset..).filter(|rest| !rest.is_empty()) else {
                break;
            };
            let count = rest.len().min(out.len() - copied);
            out[copied..copied + count].copy_from_slice(&rest[..count]);
            copied += count;
        }
        copied
    }
}
