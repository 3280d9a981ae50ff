//! How Linux hands over registers: to a signal handler in a `ucontext_t`, to a tracer and in core files as
//! `NT_PRSTATUS`. All layouts are the kernel's, the same under every C library.

mod prstatus;
mod ucontext;

pub use prstatus::{from_prstatus_note, from_regset};
pub use ucontext::{UCONTEXT_BYTES_MAX, from_ucontext, ucontext_bytes};
