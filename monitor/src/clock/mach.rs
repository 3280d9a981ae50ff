//! `CLOCK_UPTIME_RAW`: what `mach_absolute_time` counts, and Mach's waits.

/// Now, monotonic, standing still while the system sleeps. No system call: the kernel's page in every process answers.
pub(crate) fn now() -> u64 {
    read(libc::CLOCK_UPTIME_RAW)
}

/// Now since the boot, the time that the system slept included: what `mach_continuous_time` counts.
pub(crate) fn continuous() -> u64 {
    read(libc::CLOCK_MONOTONIC_RAW)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the address is the local variable's. It does not fail for a clock that there is.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
