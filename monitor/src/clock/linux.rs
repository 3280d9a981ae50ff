//! `CLOCK_MONOTONIC`.

use rustix::time::{ClockId, clock_gettime};

/// Now, monotonic, standing still while the system sleeps. About 20 ns: no system call, the kernel's vDSO answers.
pub(crate) fn now() -> u64 {
    read(ClockId::Monotonic)
}

/// Now since the boot, the time that the system slept included.
pub(crate) fn continuous() -> u64 {
    read(ClockId::Boottime)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
