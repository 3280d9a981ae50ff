//! System calls about tasks: to trace them, to wait for them, to make and end them.

use super::{Errno, KernelSigaction, SignalSet, monotonic, signal_action, syscall};
use core::sync::atomic::AtomicU32;

/// Makes a task that shares this process's memory; see [`freezeframe_asm::clone_task`]. Returns its id.
///
/// # Safety
/// As there.
pub(crate) unsafe fn clone_task(
    flags: i32,
    stack_top: usize,
    entry: extern "C" fn(usize) -> i32,
    argument: usize,
) -> Result<i32, Errno> {
    // SAFETY: as the caller promises.
    let result = unsafe { freezeframe_asm::clone_task(flags as usize, stack_top, entry, argument) };
    super::check(result).map(|pid| pid as i32)
}

/// The id of the process that made the calling one.
pub(crate) fn getppid() -> i32 {
    // SAFETY: no arguments.
    unsafe { syscall(libc::SYS_getppid, [0; 6]) }.unwrap_or(0) as i32
}

/// Ends the calling task at once.
pub(crate) fn exit_now(status: i32) -> ! {
    loop {
        // SAFETY: does not return.
        let _ = unsafe { syscall(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Sends a signal to a process.
pub(crate) fn kill(pid: i32, signal: i32) -> Result<(), Errno> {
    // SAFETY: no pointers.
    unsafe { syscall(libc::SYS_kill, [pid as usize, signal as usize, 0, 0, 0, 0]) }.map(drop)
}

/// After which time a socket ends a call by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Timeout {
    Receive = libc::SO_RCVTIMEO,
    Send = libc::SO_SNDTIMEO,
}

/// Whether a descriptor is that of a socket which ends calls of that kind by itself.
pub(crate) fn times_out(descriptor: i32, timeout: Timeout) -> bool {
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut size = size_of_val(&time) as u32;
    // SAFETY: the kernel writes at most `size` bytes to `time`, and their number to `size`.
    let asked = unsafe {
        let (time, size) = (&raw mut time as usize, &raw mut size as usize);
        let (level, option) = (libc::SOL_SOCKET as usize, timeout as usize);
        syscall(libc::SYS_getsockopt, [descriptor as usize, level, option, time, size, 0])
    };
    asked.is_ok() && (time.tv_sec, time.tv_usec) != (0, 0)
}

/// `prctl` with an option that takes numbers only.
pub(crate) fn process_control(option: i32, argument: usize) -> Result<usize, Errno> {
    // SAFETY: the options used here take no pointers.
    unsafe { syscall(libc::SYS_prctl, [option as usize, argument, 0, 0, 0, 0]) }
}

/// How the kernel schedules a task: `struct sched_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Schedule {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SCHEDULE_BYTES: usize = size_of::<Schedule>();
static_assertions::const_assert_eq!(SCHEDULE_BYTES, 48);

/// How the calling task is scheduled.
pub(crate) fn schedule() -> Result<Schedule, Errno> {
    let mut schedule = Schedule::default();
    // SAFETY: the kernel writes as much as the size says.
    unsafe {
        let address = &raw mut schedule as usize;
        syscall(libc::SYS_sched_getattr, [0, address, SCHEDULE_BYTES, 0, 0, 0])
    }?;
    Ok(Schedule { size: SCHEDULE_BYTES as u32, ..schedule })
}

/// Has the calling task be scheduled like that.
pub(crate) fn set_schedule(schedule: &Schedule) -> Result<(), Errno> {
    // SAFETY: the kernel reads as much as the size in it says.
    unsafe { syscall(libc::SYS_sched_setattr, [0, &raw const *schedule as usize, 0, 0, 0, 0]) }.map(drop)
}

/// Has the calling task run as soon as it can: before all others, if it may; else in small slices, which come early
/// (Linux 6.12). For a task that lives for milliseconds and mostly waits.
pub(crate) fn hurry() {
    const SMALLEST_SLICE: u64 = 100_000;
    let like = |policy: i32, priority, runtime| {
        let (size, policy) = (SCHEDULE_BYTES as u32, policy as u32);
        Schedule { size, policy, priority, runtime, ..Schedule::default() }
    };
    if set_schedule(&like(libc::SCHED_FIFO, 1, 0)).is_err() {
        let _ = set_schedule(&like(libc::SCHED_NORMAL, 0, SMALLEST_SLICE));
    }
}

/// Has the kernel store zero in `word` and wake its waiters when the calling task ends, however it does.
pub(crate) fn clear_at_exit(word: &AtomicU32) {
    // SAFETY: only an address is noted; the word outlives the task.
    let _ = unsafe { syscall(libc::SYS_set_tid_address, [word.as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

/// Waits for any task of that id, a clone or a traced thread included. Its status; none if `WNOHANG` is among the
/// `options` and there is nothing to tell.
pub(crate) fn wait_for(pid: i32, options: i32) -> Result<Option<i32>, Errno> {
    let mut status = 0i32;
    let options = (options | libc::__WALL) as usize;
    // SAFETY: the kernel writes one status.
    let waited =
        unsafe { syscall(libc::SYS_wait4, [pid as usize, &raw mut status as usize, options, 0, 0, 0]) };
    waited.map(|waited| (waited != 0).then_some(status))
}

/// The status of a task of that id that the calling one traces, if it has stopped; that of one that has ended stays for others
/// to take.
pub(crate) fn stopped_status(tid: i32) -> Result<Option<i32>, Errno> {
    let mut told = core::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = (libc::WSTOPPED | libc::WNOHANG | libc::__WALL) as usize;
    // SAFETY: the kernel writes one `siginfo_t`, of which zeros are a valid one.
    let told = unsafe {
        let out = told.as_mut_ptr() as usize;
        syscall(libc::SYS_waitid, [libc::P_PID as usize, tid as usize, out, options, 0, 0])?;
        told.assume_init()
    };
    // SAFETY: both are numbers, zero if there is nothing to tell.
    let (pid, status) = unsafe { (told.si_pid(), told.si_status()) };
    // As `wait4` has it.
    Ok((pid != 0).then_some(status << 8 | 0x7f))
}

/// Requests of `ptrace` that take numbers only, by the kernel's numbers: for Android `libc` does not name all of them.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Trace {
    Continue = 7,
    Detach = 17,
    Seize = 0x4206,
    Interrupt = 0x4207,
}

/// `ptrace`.
pub(crate) fn trace(request: Trace, tid: i32, data: usize) -> Result<(), Errno> {
    // SAFETY: the requests used here take no pointers.
    unsafe { syscall(libc::SYS_ptrace, [request as usize, tid as usize, 0, data, 0, 0]) }.map(drop)
}

/// The register set of that kind of a stopped thread that the calling task traces. Returns how many bytes it has.
pub(crate) fn register_set(tid: i32, kind: i32, out: &mut [u8]) -> Result<usize, Errno> {
    let mut part = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
    let (request, part_address) = (libc::PTRACE_GETREGSET as usize, &raw mut part as usize);
    // SAFETY: the kernel writes at most `out.len()` bytes to `out`, and their number to `part`.
    unsafe { syscall(libc::SYS_ptrace, [request, tid as usize, kind as usize, part_address, 0, 0]) }?;
    Ok(part.iov_len)
}

/// Sets the register set of that kind of a stopped thread that the calling task traces.
pub(crate) fn set_register_set(tid: i32, kind: i32, registers: &[u8]) -> Result<(), Errno> {
    let part = libc::iovec { iov_base: registers.as_ptr().cast_mut().cast(), iov_len: registers.len() };
    // `PTRACE_SETREGSET`.
    let (request, part_address) = (0x4205, &raw const part as usize);
    // SAFETY: the kernel reads at most `registers.len()` bytes of `registers`.
    unsafe { syscall(libc::SYS_ptrace, [request, tid as usize, kind as usize, part_address, 0, 0]) }.map(drop)
}

/// Takes a pending signal of `set` away, which must be blocked, or waits for one until the monotonic clock reaches
/// `deadline` nanoseconds. Whether there was one.
pub(crate) fn wait_for_signal_until(set: SignalSet, deadline: u64) -> bool {
    let left = deadline.saturating_sub(monotonic());
    let time = libc::timespec {
        tv_sec: (left / 1_000_000_000) as libc::time_t,
        tv_nsec: (left % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the kernel reads a set of eight bytes and a time.
    let waited = unsafe {
        let (set, time) = (&raw const set as usize, &raw const time as usize);
        syscall(libc::SYS_rt_sigtimedwait, [set, 0, time, 8, 0, 0])
    };
    waited.is_ok()
}

/// Sleeps until the monotonic clock reaches `deadline` nanoseconds, or a signal comes.
pub(crate) fn sleep_until(deadline: u64) {
    wait_for_signal_until(0, deadline);
}

/// Gives the calling task a stack for its signal handlers.
///
/// # Safety
/// The memory must be the task's alone, as long as it lives.
pub(crate) unsafe fn alternate_stack(start: usize, size: usize) {
    let stack = libc::stack_t { ss_sp: start as *mut _, ss_flags: 0, ss_size: size };
    // SAFETY: the kernel reads the description; the memory is as the caller promises.
    let _ = unsafe { syscall(libc::SYS_sigaltstack, [&raw const stack as usize, 0, 0, 0, 0, 0]) };
}

/// Has the signals of `set` go to `handler` in the calling task, on its alternate stack; 0 is the default action.
///
/// # Safety
/// As for [`signal_action`].
pub(crate) unsafe fn handle_signals(set: &[i32], handler: usize) {
    const SA_RESTORER: u64 = 0x0400_0000;
    let action = KernelSigaction {
        handler,
        flags: libc::SA_ONSTACK as u64 | SA_RESTORER,
        restorer: freezeframe_asm::signal_return(),
        mask: u64::MAX,
    };
    for signal in set {
        // SAFETY: as the caller promises.
        let _ = unsafe { signal_action(*signal, Some(&action)) };
    }
}

/// Sleeps while `*word == expected`, until woken by a task of any process or until the monotonic clock reaches `deadline`.
pub(crate) fn shared_futex_wait_until(word: &AtomicU32, expected: u32, deadline: u64) {
    let time = libc::timespec {
        tv_sec: (deadline / 1_000_000_000) as libc::time_t,
        tv_nsec: (deadline % 1_000_000_000) as libc::c_long,
    };
    // FUTEX_BITSET_MATCH_ANY, which `libc` does not name for Android.
    let any = u32::MAX as usize;
    // SAFETY: the word outlives the call; the kernel reads the word and the time.
    let _ = unsafe {
        let (word, time) = (word.as_ptr() as usize, &raw const time as usize);
        syscall(libc::SYS_futex, [word, libc::FUTEX_WAIT_BITSET as usize, expected as usize, time, 0, any])
    };
}

/// Memory for a stack, all of it there from the beginning, above a page that ends the task which runs into it. Returns its
/// lowest address.
pub(crate) fn map_guarded_stack(length: usize) -> Result<usize, Errno> {
    const GUARD: usize = 64 * 1024;
    let whole = length.saturating_add(GUARD);
    let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let start = unsafe {
        let (none, anonymous) = (libc::PROT_NONE as usize, anonymous as usize);
        syscall(libc::SYS_mmap, [0, whole, none, anonymous, usize::MAX, 0])
    }?;
    let stack = start.saturating_add(GUARD);
    let flags = (anonymous | libc::MAP_FIXED | libc::MAP_POPULATE) as usize;
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    // SAFETY: replaces the upper part of the mapping made just now.
    unsafe { syscall(libc::SYS_mmap, [stack, length, access, flags, usize::MAX, 0]) }
}
