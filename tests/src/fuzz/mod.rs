//! The bodies of the fuzz targets: each takes any bytes, and panics if a property does not hold. The targets of `fuzz/`
//! call them, and so does an ordinary test with every file of their corpora.

mod detector;
mod report;
mod symbols;
mod walk;

pub use detector::detector;
pub use report::report;
pub use symbols::symbols;
pub use walk::{cfi, compact, walk};

/// A target: its name, which is also its corpus's folder, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 6] = [
    ("walk", walk),
    ("cfi", cfi),
    ("compact", compact),
    ("report", report),
    ("symbols", symbols),
    ("detector", detector),
];

/// Takes values off the front of a fuzzer's bytes; zeros once they have ended.
struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn u8(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    fn u16(&mut self) -> u16 {
        u16::from(self.u8()) | u16::from(self.u8()) << 8
    }

    fn u64(&mut self) -> u64 {
        self.bytes(8).iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
    }
}
