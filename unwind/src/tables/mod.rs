//! Unwind tables of images: bytes in, a rule out.

pub mod cfi;
pub mod compact;
pub mod prologue;
