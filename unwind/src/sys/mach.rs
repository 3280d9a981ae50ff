//! Mach calls, by the `mach2` crate's declarations. Each is a message to the kernel, or a trap; none takes a lock of the
//! program's.
//!
//! Memory is asked for by `vm_…`, not by `mach_vm_…`: with addresses of 64 bits they do the same, and the latter are not
//! in the SDK for iOS. The App Store refuses programs that refer to them.

use crate::threads::ThreadId;
use core::mem::MaybeUninit;
use mach2::kern_return::{KERN_SUCCESS, kern_return_t};
use mach2::message::mach_msg_type_number_t;
use mach2::port::mach_port_t;
use mach2::vm_prot::VM_PROT_READ;
use mach2::vm_region::{
    VM_REGION_BASIC_INFO_64, VM_REGION_BASIC_INFO_COUNT_64, vm_region_basic_info_64, vm_region_flavor_t,
    vm_region_info_t,
};
use mach2::vm_types::{vm_address_t, vm_size_t};

unsafe extern "C" {
    /// `<time.h>`: a clock in nanoseconds.
    fn clock_gettime_nsec_np(clock: libc::clockid_t) -> u64;
    /// `<mach/vm_map.h>`
    fn vm_read_overwrite(
        task: mach_port_t,
        address: vm_address_t,
        size: vm_size_t,
        data: vm_address_t,
        copied: *mut vm_size_t,
    ) -> kern_return_t;
    /// `<mach/vm_map.h>`
    fn vm_region_64(
        task: mach_port_t,
        address: *mut vm_address_t,
        size: *mut vm_size_t,
        flavor: vm_region_flavor_t,
        info: vm_region_info_t,
        count: *mut mach_msg_type_number_t,
        object: *mut mach_port_t,
    ) -> kern_return_t;
    /// `<mach/vm_map.h>`
    fn vm_deallocate(task: mach_port_t, address: vm_address_t, size: vm_size_t) -> kern_return_t;
}

/// The kernel's addresses are this program's.
const _: () = assert!(size_of::<vm_address_t>() == size_of::<u64>());

/// The port of this task. It has a send right of its own that is never released.
pub(crate) fn task() -> mach_port_t {
    // SAFETY: reads a variable that is set before the program starts, and again in a forked child.
    unsafe { mach2::traps::mach_task_self() }
}

/// The name of a thread's port.
pub(crate) const fn port(thread: ThreadId) -> mach_port_t {
    thread.0 as mach_port_t
}

/// The uptime clock in nanoseconds, which stands still while the system sleeps: the one that all times in this crate are
/// given in.
pub(crate) fn monotonic() -> u64 {
    // SAFETY: no pointers.
    unsafe { clock_gettime_nsec_np(libc::CLOCK_UPTIME_RAW) }
}

/// This process's id: right after a fork too.
pub(crate) fn getpid() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::getpid() }
}

/// Releases one send right.
pub(crate) fn release_port(name: mach_port_t) {
    // SAFETY: the caller owns the right; the kernel checks the name.
    let _ = unsafe { mach2::mach_port::mach_port_deallocate(task(), name) };
}

/// Copies all of `out` from `address`, or says that this cannot be done; then `out` may hold anything.
pub(crate) fn read_whole(address: u64, out: &mut [u8]) -> bool {
    let wanted = out.len();
    let mut read = 0;
    // SAFETY: the kernel writes at most `wanted` bytes to `out`; it checks each page that it reads.
    let result = unsafe {
        let to = out.as_mut_ptr() as vm_address_t;
        vm_read_overwrite(task(), address as vm_address_t, wanted, to, &mut read)
    };
    result == KERN_SUCCESS && read == wanted
}

/// Unmaps memory that the kernel has mapped for an answer.
///
/// # Safety
/// Nothing refers to it any more.
pub(crate) unsafe fn deallocate(address: u64, size: u64) {
    // SAFETY: as the caller promises.
    let _ = unsafe { vm_deallocate(task(), address as vm_address_t, size as vm_size_t) };
}

/// A region of memory with one protection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) readable: bool,
}

/// The region that `address` lies in, or the next one above it.
pub(crate) fn region(address: u64) -> Option<Region> {
    let (mut start, mut size) = (address as vm_address_t, 0);
    let mut info = MaybeUninit::<vm_region_basic_info_64>::zeroed();
    let mut count = VM_REGION_BASIC_INFO_COUNT_64;
    // Always null: the kernel has long ceased to name the object.
    let mut object = 0;
    // SAFETY: the kernel writes at most `count` words of four bytes to `info`.
    let result = unsafe {
        vm_region_64(
            task(),
            &mut start,
            &mut size,
            VM_REGION_BASIC_INFO_64,
            info.as_mut_ptr().cast(),
            &mut count,
            &mut object,
        )
    };
    // SAFETY: zeroed at first, and integers only.
    let protection = unsafe { info.assume_init() }.protection;
    (result == KERN_SUCCESS).then(|| Region {
        start: start as u64,
        end: start.saturating_add(size) as u64,
        readable: protection & VM_PROT_READ != 0,
    })
}
