//! What tests across the crates share.

pub mod code;
pub mod elf;
pub mod emulation;
pub mod fuzz;
pub mod oracle;
