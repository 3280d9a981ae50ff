//! What somebody could do who may write where the report lies, or who hands over a report.
#![cfg(any(target_os = "linux", target_os = "android"))]

#[path = "../common/mod.rs"]
mod common;
mod forged;
mod names;
mod paths;

/// CPU time of the calling thread: how busy the machine is beside it does not matter.
fn cpu_time() -> std::time::Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    std::time::Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
