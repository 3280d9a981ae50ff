//! The C interface of the monitor, `freezeframe.h`.
//!
//! Each function checks its arguments and calls one function of `freezeframe_monitor` or `freezeframe_report`. Handles of monitors
//! stay valid for the life of the process, so that a call after the stop is an error and no crash; a panic becomes an error. The
//! libraries are made by `tests/embed/install`; an ordinary build is a Rust library for tests.
#![allow(non_camel_case_types)] // the names are the header's

mod arguments;
pub mod config;
#[cfg(target_vendor = "apple")]
pub mod core_foundation;
mod crash;
pub mod error;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub mod glib;
pub mod handle;
pub mod kinds;
pub mod ping;
pub mod records;
pub mod run_loop;
pub mod tell;

pub use crash::{ff_crash_install, ff_crash_protect_thread};

/// The version of this header, to be compared with `ff_monitor_version`.
pub const FF_MONITOR_VERSION: u32 = 100;

/// The version of this library, as a number: major, minor and patch, two decimal digits each.
#[unsafe(no_mangle)]
pub extern "C" fn ff_monitor_version() -> u32 {
    FF_MONITOR_VERSION
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_is_the_packages() {
        let numbers = env!("CARGO_PKG_VERSION").split('.').map(|digits| digits.parse::<u32>().unwrap());
        assert_eq!(numbers.fold(0, |all, number| all * 100 + number), super::FF_MONITOR_VERSION);
    }
}
