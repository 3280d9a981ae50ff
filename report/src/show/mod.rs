//! Records for people and programs: names of functions, text, JSON.

mod clean;
mod crash;
mod json;
mod list;
mod symbols;
mod text;

pub use json::to_json;
pub use list::{duration, list_line};
pub use symbols::Symbols;
pub use text::{RegistersOf, TextOptions, write_text};
