//! What the programs of this folder share: children of their own for each scenario, captures as records, and the lines that
//! `tests/proof/run` counts.
#![cfg(target_os = "linux")]

mod children;
mod lines;
mod records;

pub use children::{Child, Ended, Folder};
pub use lines::Property;
pub use records::{about, numbered};
