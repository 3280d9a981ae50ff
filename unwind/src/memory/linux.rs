//! A process's memory, through the kernel.

use super::Memory;
use crate::process::ProcessId;
use crate::sys::{self, Errno};

const PAGE: u64 = 4096;

/// The memory of the calling process, copied by the kernel: an unmapped or protected page ends a read, it never faults.
///
/// One `process_vm_readv` a read. Where that is forbidden or missing (a container's seccomp profile: EPERM; qemu-user,
/// an old kernel: ENOSYS) a page at a time goes through a pipe, which needs no permission. Where no pipe can be made
/// either, nothing can be read.
///
/// The calling thread is asked for at each read, so that a value which outlives a fork reads the child; and not the
/// process, whose main thread may have ended: then it has no memory.
///
/// Another process's memory ([`of`](Self::of)) is read by `process_vm_readv` or not at all.
#[derive(Debug)]
pub struct ProcessMemory {
    process: ProcessId,
    way: Way,
}

/// Which calls fail that memory would be read by, and with which error numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) process_vm_readv: i32,
    pub(crate) pipe2: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Direct,
    /// For `process_vm_readv` fails with that error.
    Pipe(i32),
}

impl ProcessMemory {
    /// Opens nothing and asks nothing: the first read finds the way.
    pub const fn new() -> Self {
        Self::of(ProcessId::Own)
    }

    /// The memory of that process.
    pub const fn of(process: ProcessId) -> Self {
        Self { process, way: Way::Direct }
    }

    #[cfg(test)]
    pub(crate) const fn through_pipe() -> Self {
        Self { process: ProcessId::Own, way: Way::Pipe(libc::EPERM) }
    }

    /// Why no memory can be read at all, if that is so.
    pub(crate) fn refused(&mut self) -> Option<Refused> {
        let byte = 0u8;
        self.read(&raw const byte as u64, &mut [0]);
        let Way::Pipe(process_vm_readv) = self.way else { return None };
        Some(Refused { process_vm_readv, pipe2: sys::pipe().err()?.0 })
    }

    /// Whether the kernel copies memory directly, as far as was found.
    pub(crate) const fn is_direct(&self) -> bool {
        matches!(self.way, Way::Direct)
    }
}

impl Default for ProcessMemory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory for ProcessMemory {
    /// # Signal safety
    /// Safe: `gettid` and `process_vm_readv`, or `pipe2`, `write`, `read` and `close`.
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        if let Some(number) = self.process.number() {
            return sys::process_vm_readv(number, address, out).unwrap_or(0);
        }
        if self.way == Way::Direct {
            match sys::process_vm_readv(sys::gettid(), address, out) {
                Ok(copied) => return copied,
                Err(Errno(number @ (libc::EPERM | libc::ENOSYS))) => self.way = Way::Pipe(number),
                Err(_) => return 0,
            }
        }
        copy_through_pipe(address, out)
    }
}

/// A pipe of its own for each copy: shared with nobody, so neither another thread nor a forked child can mix bytes in.
fn copy_through_pipe(address: u64, out: &mut [u8]) -> usize {
    sys::pipe().map_or(0, |(source, sink)| PipeMemory { source: &source, sink: &sink }.read(address, out))
}

/// The memory of the calling task, through a pipe that nobody else uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PipeMemory<'a> {
    pub(crate) source: &'a sys::Fd,
    pub(crate) sink: &'a sys::Fd,
}

impl Memory for PipeMemory<'_> {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        let mut copied = 0usize;
        while let Some(rest) = out.get_mut(copied..)
            && !rest.is_empty()
        {
            let Some(from) = address.checked_add(copied as u64) else { break };
            // To the end of the page: a page is readable as a whole or not at all.
            let chunk = (PAGE - from % PAGE).min(rest.len() as u64) as usize;
            let Ok(written) = self.sink.write_from_address(from, chunk) else { break };
            let Some(rest) = rest.get_mut(..written) else { break };
            match self.source.read(rest) {
                Ok(read) if read == written && read != 0 => copied = copied.saturating_add(read),
                _ => break,
            }
        }
        copied
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;

    /// Two pages, the second one unmapped, and the address of the first.
    fn page_before_a_hole() -> u64 {
        let two = sys::map_wiped_on_fork(2 * PAGE as usize).unwrap();
        unsafe extern "C" {
            fn munmap(address: usize, length: usize) -> i32;
        }
        // SAFETY: the second page of the mapping made above, which nothing else refers to.
        assert_eq!(unsafe { munmap(two + PAGE as usize, PAGE as usize) }, 0);
        two as u64
    }

    #[test]
    fn both_ways_read_the_prefix_before_a_hole() {
        let page = page_before_a_hole();
        // SAFETY: the page is mapped, writable and not otherwise used.
        unsafe { (page as *mut [u8; PAGE as usize]).write([0x5a; PAGE as usize]) };
        for mut memory in [ProcessMemory::new(), ProcessMemory::through_pipe()] {
            let mut out = vec![0; 3 * PAGE as usize];
            assert_eq!(memory.read(page + 100, &mut out), PAGE as usize - 100, "{memory:?}");
            assert!(out[..PAGE as usize - 100].iter().all(|byte| *byte == 0x5a));
            assert!(out[PAGE as usize - 100..].iter().all(|byte| *byte == 0));
            assert_eq!(memory.read(page + PAGE, &mut out), 0);
            assert_eq!(memory.read(0, &mut out), 0, "the null page");
            assert_eq!(memory.read(u64::MAX - 8, &mut out), 0, "the top of the address space");
        }
    }

    #[test]
    fn both_ways_read_more_than_a_pipe_holds() {
        let source: std::vec::Vec<u8> = (0..300_000u32).map(|n| (n * 7 + n / 256) as u8).collect();
        for mut memory in [ProcessMemory::new(), ProcessMemory::through_pipe()] {
            let mut out = vec![0; source.len()];
            assert_eq!(memory.read(source.as_ptr() as u64, &mut out), source.len(), "{memory:?}");
            assert_eq!(out, source);
        }
    }

    #[test]
    fn a_word_across_a_page_boundary_reads_whole_or_not_at_all() {
        let page = page_before_a_hole();
        for mut memory in [ProcessMemory::new(), ProcessMemory::through_pipe()] {
            assert_eq!(memory.read_u64(page + PAGE - 8), Some(0), "{memory:?}");
            assert_eq!(memory.read_u64(page + PAGE - 7), None, "{memory:?}");
        }
    }
}
