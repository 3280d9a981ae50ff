//! Raw Linux system calls. Numbers and constants come from the `libc` crate; none of its functions is called.

mod path;
mod process;
mod reserve;

pub(crate) use path::Path;
pub(crate) use process::*;
pub(crate) use reserve::{kept_list, reserve};

use core::ffi::CStr;
use reserve::After;

/// A positive error number, as `libc` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

/// Calls the kernel with up to six arguments.
///
/// # Safety
/// The call must be sound with these arguments: pointers valid for what the kernel reads and writes.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn syscall(number: libc::c_long, arguments: [usize; 6]) -> Result<usize, Errno> {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: the x86_64 system call convention: rcx and r11 are clobbered, memory may be read and written.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    check(result)
}

/// Calls the kernel with up to six arguments.
///
/// # Safety
/// The call must be sound with these arguments: pointers valid for what the kernel reads and writes.
#[cfg(target_arch = "aarch64")]
#[inline]
unsafe fn syscall(number: libc::c_long, arguments: [usize; 6]) -> Result<usize, Errno> {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: the arm64 system call convention: only x0 changes, memory may be read and written.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a as isize => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    check(result)
}

#[inline]
fn check(result: isize) -> Result<usize, Errno> {
    if (-4095..0).contains(&result) { Err(Errno(result.wrapping_neg() as i32)) } else { Ok(result as usize) }
}

/// Memory of a process by the kernel: copies from `address` to `out` and returns how many bytes could be read before
/// the first that could not.
pub(crate) fn process_vm_readv(pid: i32, address: u64, out: &mut [u8]) -> Result<usize, Errno> {
    let local = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
    let remote = libc::iovec { iov_base: address as usize as *mut _, iov_len: out.len() };
    // SAFETY: the kernel writes at most `out.len()` bytes to `out`; the remote side is only read, with checks.
    unsafe {
        let (local, remote) = (&raw const local as usize, &raw const remote as usize);
        syscall(libc::SYS_process_vm_readv, [pid as usize, local, 1, remote, 1, 0])
    }
}

/// A descriptor that closes itself, or goes back to the reserve.
#[derive(Debug)]
pub(crate) struct Fd {
    number: i32,
    after: After,
}

impl Fd {
    /// Reads at the current position.
    pub(crate) fn read(&self, out: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: the kernel writes at most `out.len()` bytes to `out`.
        unsafe {
            syscall(libc::SYS_read, [self.number as usize, out.as_mut_ptr() as usize, out.len(), 0, 0, 0])
        }
    }

    /// Reads from the file's beginning, wherever its position is, and leaves that as it is.
    pub(crate) fn read_from_start(&self, out: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: the kernel writes at most `out.len()` bytes to `out`.
        unsafe {
            syscall(libc::SYS_pread64, [self.number as usize, out.as_mut_ptr() as usize, out.len(), 0, 0, 0])
        }
    }

    /// Reads until the end of the file or of `out`, and returns the part of `out` that was filled.
    pub(crate) fn read_to_end<'a>(&self, out: &'a mut [u8]) -> Result<&'a [u8], Errno> {
        let mut filled = 0;
        while let Some(rest) = out.get_mut(filled..)
            && !rest.is_empty()
        {
            match self.read(rest) {
                Ok(0) => break,
                Ok(n) => filled = filled.saturating_add(n),
                Err(Errno(libc::EINTR)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(out.get(..filled).unwrap_or(&[]))
    }

    /// Directory entries in the form of `getdents64`.
    pub(crate) fn directory_entries(&self, out: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: the kernel writes at most `out.len()` bytes to `out`.
        unsafe {
            syscall(
                libc::SYS_getdents64,
                [self.number as usize, out.as_mut_ptr() as usize, out.len(), 0, 0, 0],
            )
        }
    }

    /// The same, from the first entry on again.
    pub(crate) fn rewind(&self) -> Result<(), Errno> {
        // SAFETY: no pointers.
        unsafe { syscall(libc::SYS_lseek, [self.number as usize, 0, libc::SEEK_SET as usize, 0, 0, 0]) }
            .map(drop)
    }

    /// Writes `length` bytes of this process's memory at `address`, which need not be readable: then `EFAULT`.
    pub(crate) fn write_from_address(&self, address: u64, length: usize) -> Result<usize, Errno> {
        // SAFETY: write only reads memory, and the kernel checks each page of it.
        unsafe { syscall(libc::SYS_write, [self.number as usize, address as usize, length, 0, 0, 0]) }
    }
}

/// Opens a file or directory for reading; where no descriptor is left, in the place of a spare one.
pub(crate) fn open(path: &CStr) -> Result<Fd, Errno> {
    match open_number(path) {
        Ok(number) => Ok(Fd { number, after: After::Close }),
        Err(error @ Errno(libc::EMFILE | libc::ENFILE)) => {
            reserve::in_place_of_a_spare(|| open_number(path), error)
        }
        Err(error) => Err(error),
    }
}

fn open_number(path: &CStr) -> Result<i32, Errno> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: `path` is terminated; the kernel only reads it.
    let number = unsafe {
        let path = path.as_ptr() as usize;
        syscall(libc::SYS_openat, [libc::AT_FDCWD as usize, path, flags as usize, 0, 0, 0])
    }?;
    Ok(number as i32)
}

/// A pipe that never blocks: `(read end, write end)`. Where none can be made, the one that is kept, if nobody uses it.
pub(crate) fn pipe() -> Result<(Fd, Fd), Errno> {
    let mut ends = [0i32; 2];
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the kernel writes two descriptors to `ends`.
    let made = unsafe { syscall(libc::SYS_pipe2, [ends.as_mut_ptr() as usize, flags as usize, 0, 0, 0, 0]) };
    match made {
        Ok(_) => {
            let [read, write] = ends.map(|number| Fd { number, after: After::Close });
            Ok((read, write))
        }
        Err(error) => reserve::kept_pipe(error),
    }
}

/// Closes a descriptor.
fn close(number: i32) {
    // SAFETY: no pointers; the callers own the descriptor.
    let _ = unsafe { syscall(libc::SYS_close, [number as usize, 0, 0, 0, 0, 0]) };
}

/// A new descriptor of the same file.
fn duplicate(number: i32) -> Result<i32, Errno> {
    let command = libc::F_DUPFD_CLOEXEC as usize;
    // SAFETY: no pointers.
    unsafe { syscall(libc::SYS_fcntl, [number as usize, command, 0, 0, 0, 0]) }.map(|number| number as i32)
}

/// Closes `number` and makes it a descriptor of the same file as `original`, in one step.
fn replace(number: i32, original: i32) -> Result<(), Errno> {
    let flags = libc::O_CLOEXEC as usize;
    // SAFETY: no pointers; the callers own the descriptor.
    unsafe { syscall(libc::SYS_dup3, [original as usize, number as usize, flags, 0, 0, 0]) }.map(drop)
}

/// `libc` does not name it for Android's arm64.
const FSTAT: core::ffi::c_long = if cfg!(target_arch = "aarch64") { 80 } else { 5 };

/// The device and the inode of a descriptor's file.
fn identity(number: i32) -> Option<(u64, u64)> {
    let mut status = core::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel writes one `stat`, of which zeros are a valid one.
    let status = unsafe {
        syscall(FSTAT, [number as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0]).ok()?;
        status.assume_init()
    };
    Some((status.st_dev, status.st_ino))
}

/// An entry of the auxiliary vector.
pub(crate) fn auxiliary(kind: u64) -> Option<u64> {
    let mut buffer = [0u8; 1024];
    let vector = open(c"/proc/self/auxv").and_then(|file| file.read_to_end(&mut buffer)).ok()?;
    let mut entries = vector.as_chunks::<16>().0.iter().map(|entry| {
        let both = u128::from_le_bytes(*entry);
        (both as u64, (both >> 64) as u64)
    });
    entries.find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// This process's id, asked of the kernel each time: right after a fork too.
pub(crate) fn getpid() -> i32 {
    // SAFETY: no arguments.
    unsafe { syscall(libc::SYS_getpid, [0; 6]) }.unwrap_or(0) as i32
}

/// The calling thread's id.
pub(crate) fn gettid() -> i32 {
    // SAFETY: no arguments.
    unsafe { syscall(libc::SYS_gettid, [0; 6]) }.unwrap_or(0) as i32
}

/// Sends `signal` to one thread of a process.
pub(crate) fn tgkill(pid: i32, tid: i32, signal: i32) -> Result<(), Errno> {
    // SAFETY: no pointers.
    unsafe { syscall(libc::SYS_tgkill, [pid as usize, tid as usize, signal as usize, 0, 0, 0]) }.map(drop)
}

/// A clock in nanoseconds; zero if the kernel does not know it.
pub(crate) fn clock(id: i32) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    let result =
        unsafe { syscall(libc::SYS_clock_gettime, [id as usize, &raw mut time as usize, 0, 0, 0, 0]) };
    match result {
        Ok(_) => (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64),
        Err(_) => 0,
    }
}

/// The monotonic clock in nanoseconds: the one that all times in this crate are given in.
pub(crate) fn monotonic() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// Sleeps while `*word == expected`, until woken or until the monotonic clock reaches `deadline` nanoseconds.
pub(crate) fn futex_wait_until(
    word: &core::sync::atomic::AtomicU32,
    expected: u32,
    deadline: u64,
) -> Result<(), Errno> {
    let time = libc::timespec {
        tv_sec: (deadline / 1_000_000_000) as libc::time_t,
        tv_nsec: (deadline % 1_000_000_000) as libc::c_long,
    };
    let operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
    // FUTEX_BITSET_MATCH_ANY, which `libc` does not name for Android.
    let any = u32::MAX as usize;
    // SAFETY: the word outlives the call; the kernel reads the word and the time.
    unsafe {
        let arguments =
            [word.as_ptr() as usize, operation as usize, expected as usize, &raw const time as usize, 0, any];
        syscall(libc::SYS_futex, arguments)
    }
    .map(drop)
}

/// Sleeps for so many nanoseconds, or less if a signal comes.
pub(crate) fn sleep(ns: u64) {
    let nobody_wakes = core::sync::atomic::AtomicU32::new(0);
    let _ = futex_wait_until(&nobody_wakes, 0, monotonic().saturating_add(ns));
}

/// Wakes every thread that sleeps on `word`.
pub(crate) fn futex_wake_all(word: &core::sync::atomic::AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: waking reads nothing but the address.
    let _ = unsafe {
        syscall(libc::SYS_futex, [word.as_ptr() as usize, operation as usize, i32::MAX as usize, 0, 0, 0])
    };
}

/// A set of signals as the kernel has it: bit `n - 1` is signal `n`.
pub(crate) type SignalSet = u64;

/// The set of one signal.
pub(crate) fn signal_set(signal: i32) -> SignalSet {
    1u64.checked_shl((signal as u32).wrapping_sub(1)).unwrap_or(0)
}

/// Changes the calling thread's signal mask and returns the earlier one. `how` is `SIG_BLOCK` or `SIG_SETMASK`.
pub(crate) fn signal_mask(how: i32, set: SignalSet) -> SignalSet {
    let mut old: SignalSet = 0;
    // SAFETY: both sets are eight bytes long, as the last argument says.
    let _ = unsafe {
        let (set, old) = (&raw const set as usize, &raw mut old as usize);
        syscall(libc::SYS_rt_sigprocmask, [how as usize, set, old, 8, 0, 0])
    };
    old
}

/// `struct sigaction` as the kernel has it (the C libraries' differ).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelSigaction {
    pub(crate) handler: usize,
    pub(crate) flags: u64,
    pub(crate) restorer: usize,
    pub(crate) mask: SignalSet,
}

static_assertions::const_assert_eq!(size_of::<KernelSigaction>(), 32);

/// Reads, and if `new` is given replaces, the action of a signal.
///
/// # Safety
/// A new action's handler must be a function that may run at any point of any thread.
pub(crate) unsafe fn signal_action(
    signal: i32,
    new: Option<&KernelSigaction>,
) -> Result<KernelSigaction, Errno> {
    let mut old = KernelSigaction { handler: 0, flags: 0, restorer: 0, mask: 0 };
    let new = new.map_or(0, |new| &raw const *new as usize);
    // SAFETY: both are kernel sigactions with eight-byte masks, as the last argument says.
    unsafe { syscall(libc::SYS_rt_sigaction, [signal as usize, new, &raw mut old as usize, 8, 0, 0]) }?;
    Ok(old)
}

/// Private anonymous memory, zeroed, that a forked child sees zeroed again where the kernel can do that (Linux 4.14).
pub(crate) fn map_wiped_on_fork(length: usize) -> Result<usize, Errno> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let address =
        unsafe { syscall(libc::SYS_mmap, [0, length, protection as usize, flags as usize, usize::MAX, 0]) }?;
    // SAFETY: the mapping was made just now, with this length.
    let _ = unsafe { syscall(libc::SYS_madvise, [address, length, libc::MADV_WIPEONFORK as usize, 0, 0, 0]) };
    Ok(address)
}
