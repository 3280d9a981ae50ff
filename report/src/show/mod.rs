//! Records for people and programs: names of functions, text, JSON.

mod clean;
mod json;
mod list;
mod symbols;
mod text;

pub use json::to_json;
pub use list::{duration, list_line};
pub use symbols::{Function, FunctionIndex, Placement, Symbols};
pub use text::{RegistersOf, TextOptions, write_text};
