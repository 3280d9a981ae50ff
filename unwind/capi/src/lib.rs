//! The C interface of the stack walker, `freezeframe_unwind.h`.
//!
//! Each function checks its arguments and calls one function of `freezeframe_unwind`. What C holds is one piece of memory of the
//! caller's, [`ff_core`](storage::ff_core). The libraries are made by `tests/embed/install`, with the feature `capi`; an
//! ordinary build is a Rust library for tests.
#![no_std]
#![allow(non_camel_case_types)] // the names are the header's

pub mod capture;
mod context;
pub mod error;
pub mod images;
pub mod read;
pub mod storage;
mod structs;

/// The version of this library, as a number: major, minor and patch, two decimal digits each.
///
/// # Signal safety
/// Safe.
#[unsafe(no_mangle)]
pub extern "C" fn ff_version() -> u32 {
    VERSION
}

/// The version of this header, to be compared with `ff_version`.
pub const FF_VERSION: u32 = 100;

const VERSION: u32 = {
    let major = decimal(env!("CARGO_PKG_VERSION_MAJOR"));
    let minor = decimal(env!("CARGO_PKG_VERSION_MINOR"));
    major * 10_000 + minor * 100 + decimal(env!("CARGO_PKG_VERSION_PATCH"))
};

static_assertions::const_assert_eq!(VERSION, FF_VERSION);

const fn decimal(digits: &str) -> u32 {
    match u32::from_str_radix(digits, 10) {
        Ok(number) => number,
        Err(_) => panic!("a version has numbers"),
    }
}

/// Nothing that is linked can panic: the check of the exported library finds this function, if it could be reached.
#[cfg(feature = "capi")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
