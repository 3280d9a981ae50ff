//! What tests across the crates share.

pub mod elf;
pub mod fuzz;
pub mod oracle;
