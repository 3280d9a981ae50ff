//! Records for people and programs: names of functions, text, JSON, a crash report as Apple writes it.

mod apple;
mod clean;
mod crash;
mod episode;
mod json;
mod list;
mod locks;
mod notes;
mod symbols;
mod text;
mod vitals;

pub use apple::write_apple;
pub use clean::Clean;
pub use json::to_json;
pub use list::{duration, list_line};
pub use symbols::{Function, FunctionIndex, Placement, Symbols};
pub use text::{RegistersOf, TextOptions, write_text};
