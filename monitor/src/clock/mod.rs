//! The clocks of this crate: nanoseconds.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(target_vendor = "apple")]
mod mach;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use linux::{continuous, now};
#[cfg(target_vendor = "apple")]
pub(crate) use mach::{continuous, now};

/// Now by the wall clock, since 1970.
pub(crate) fn wall() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_on_while_a_thread_sleeps_and_counts_nanoseconds() {
        let begun = now();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let slept = now() - begun;
        assert!((20_000_000..60_000_000_000).contains(&slept), "{slept} ns");
    }
}
