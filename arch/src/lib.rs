//! Register files of arm64 and x86_64, and how each operating system hands them over.
//!
//! Both architectures are compiled everywhere, so that a stack of one can be walked on the other: offline, in a test,
//! under a fuzzer. Parsers take bytes and return a register file or a typed error; nothing here allocates or panics.
//!
//! ```text
//! ucontext_t, NT_PRSTATUS ──linux──▶ Registers { X86_64(..) | Arm64(..) } ──▶ pc, sp, fp, lr, by DWARF number
//! thread state ─────────────mach───▶
//! the calling thread ─────capture──▶
//! ```
#![no_std]

mod arm64;
mod bytes;
mod capture;
pub mod linux;
pub mod mach;
mod pac;
mod registers;
mod x86_64;

pub use arm64::RegistersArm64;
pub use bytes::RegistersError;
pub use capture::capture;
pub use pac::PacMask;
pub use registers::{Architecture, Registers};
pub use x86_64::RegistersX86_64;
