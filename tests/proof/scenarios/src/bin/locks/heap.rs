//! A heap whose next large chunk cannot be made: the allocator writes the size of what is left behind it, into a page that
//! it must wait for. It waits with its lock held.
//!
//! ```text
//! ── chunk ──│ top: what is left …                     │
//!            │ size │  may be written  │  may not       │
//!            └── a chunk of LARGE ──────────▶│ the size of the new top
//! ```

use super::parks;
use std::mem::zeroed;
use std::ptr::null_mut;

/// Ends in pages that may not be written to.
pub(crate) const LARGE: usize = 1 << 20;
const PAGE: usize = 4096;
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;

/// How the pages are taken away.
pub(crate) enum Taken {
    /// Who writes gets a signal, and stays in its handler.
    BySignal,
    /// Who writes waits in the kernel, and the descriptor tells.
    ByUserfaultfd(i32),
}

/// Makes the heap such a one. None: this system has no userfaultfd for us.
pub(crate) fn prepare(by_userfaultfd: bool) -> Option<Taken> {
    // SAFETY: settings of the allocator, and a chunk that stays; what lies behind it is the allocator's own, and not yet
    // used by anybody.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 1 << 30);
        libc::mallopt(libc::M_TOP_PAD, 16 << 20);
        let chunk = libc::malloc(2 << 20) as usize;
        let size = *((chunk - 8) as *const usize) & !7;
        let top = chunk - 16 + size;
        let end = libc::sbrk(0) as usize & !(PAGE - 1);
        let first = (top + 64 * PAGE) & !(PAGE - 1);
        assert!(first + 2 * LARGE < end, "the heap has no room: {top:x} {end:x}");
        if !by_userfaultfd {
            let mut action: libc::sigaction = zeroed();
            action.sa_sigaction = stays as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
            assert_eq!(libc::sigaction(libc::SIGSEGV, &action, &raw mut EARLIER), 0);
            RANGE = (first, end);
            assert_eq!(libc::mprotect(first as *mut _, end - first, libc::PROT_NONE), 0);
            return Some(Taken::BySignal);
        }
        let descriptor = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) as i32;
        if descriptor < 0 {
            return None;
        }
        let mut api = [0xaa_u64, 0, 0];
        assert_eq!(libc::ioctl(descriptor, UFFDIO_API, api.as_mut_ptr()), 0);
        libc::madvise(first as *mut _, end - first, libc::MADV_DONTNEED);
        let mut register = [first as u64, (end - first) as u64, 1, 0];
        assert_eq!(libc::ioctl(descriptor, UFFDIO_REGISTER, register.as_mut_ptr()), 0);
        Some(Taken::ByUserfaultfd(descriptor))
    }
}

/// Waits until a thread waits for such a page.
pub(crate) fn wait_for_a_fault(descriptor: i32) {
    let mut message = [0u8; 32];
    // SAFETY: the kernel writes at most so many bytes.
    let read = unsafe { libc::read(descriptor, message.as_mut_ptr().cast(), message.len()) };
    assert_eq!((read, message[0]), (32, 0x12), "a page fault");
}

static mut EARLIER: libc::sigaction =
    libc::sigaction { sa_sigaction: 0, sa_mask: EMPTY, sa_flags: 0, sa_restorer: None };
// SAFETY: zeros are the empty set.
const EMPTY: libc::sigset_t = unsafe { zeroed() };
static mut RANGE: (usize, usize) = (0, 0);

/// A thread that writes to these pages stays here. Others' faults are the earlier handler's.
extern "C" fn stays(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: as the kernel gave it; set before there was anybody to fault.
    unsafe {
        let address = (*info).si_addr() as usize;
        if address >= RANGE.0 && address < RANGE.1 {
            parks::stay();
        }
        // The instruction faults again, there.
        libc::sigaction(libc::SIGSEGV, &raw const EARLIER, null_mut());
    }
}
