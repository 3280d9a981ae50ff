//! What somebody could do who may write where the report lies, or who hands over a report.
#![cfg(any(target_os = "linux", target_os = "android"))]

#[path = "../common/mod.rs"]
mod common;
mod forged;
mod names;
mod paths;
