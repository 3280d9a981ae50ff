//! What tests across the crates share.
//!
//! `cargo test -p freezeframe-tests --release -- --nocapture` runs them all and prints what was compared, how many items,
//! and how many differed. Tests that need a compiler or a debugger that is not there say so and are skipped.

pub mod code;
pub mod elf;
pub mod emulation;
pub mod fuzz;
pub mod macho;
pub mod oracle;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod stepper;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod witness;
