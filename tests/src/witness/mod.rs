//! gdb as a second witness: what it and our walk say about the same stopped process.

mod gdb;
mod stopped;

pub use gdb::{GdbFrame, GdbThread, ask_gdb};
pub use stopped::{Target, WalkedThread};
