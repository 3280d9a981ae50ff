//! Truth of walks: compiled code runs under an emulator one instruction at a time, and at each the walk's frames must be
//! the calls that are going on.
//!
//! ```text
//! program.c ─compiler→ executable ─Program→ memory as loaded ─emulate.py→ Trace: registers and stack at each instruction
//!                                      │                                    │
//!                                      └────────── ImageTable ──────────────┴→ Walker  =  ShadowStack of calls and returns
//! ```

mod compare;
mod emulator;
mod program;
mod shadow;
mod trace;

pub use compare::{Mismatch, Tally, compare};
pub use emulator::{Emulator, python};
pub use program::Program;
pub use shadow::{Call, Lost, ShadowStack, Transfer};
pub use trace::{BadTrace, Instant, Trace};
