//! The report file: what a freeze looked like, in a form that survives the process.
//!
//! ```text
//! About, View, ImageTable ──encode──▶ bytes ──ring──▶ slot of the file ──read──▶ Record ──show──▶ text, JSON
//!                           (no_std, no allocation, signal-safe)              (std, treats the file as hostile)
//! ```
//!
//! `FORMAT.md` in this crate describes every byte.
#![cfg_attr(not(feature = "std"), no_std)]

pub mod encode;
#[cfg(feature = "std")]
pub mod file;
pub mod layout;
#[cfg(feature = "std")]
pub mod process;
#[cfg(feature = "std")]
pub mod read;
pub mod ring;
#[cfg(feature = "std")]
pub mod show;
