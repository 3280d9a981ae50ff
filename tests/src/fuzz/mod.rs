//! The bodies of the fuzz targets: each takes any bytes, and panics if a property does not hold. The targets of `fuzz/`
//! call them, and so does an ordinary test with every file of their corpora.

mod cfi;
mod code;
mod compact;
mod detector;
mod elf;
mod image;
mod macho;
mod report;
mod ring;
mod scratch;
pub mod seeds;
mod source;
mod space;
mod walk;

pub use cfi::cfi;
pub use code::code;
pub use compact::compact;
pub use detector::detector;
pub use elf::elf;
pub use macho::macho;
pub use report::report;
pub use ring::ring;
pub use walk::walk;

/// A target: its name, which is also its corpus's folder, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 9] = [
    ("walk", walk),
    ("cfi", cfi),
    ("compact", compact),
    ("code", code),
    ("elf", elf),
    ("macho", macho),
    ("report", report),
    ("ring", ring),
    ("detector", detector),
];
