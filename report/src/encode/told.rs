//! What the program told of itself.

use super::writer::Writer;

/// What the program told of itself before the freeze.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told<'a> {
    /// Names and values.
    pub values: &'a [(&'a str, &'a str)],
    /// What happened last, oldest first.
    pub crumbs: &'a [Crumb<'a>],
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crumb<'a> {
    /// When, on the monotonic clock, in nanoseconds.
    pub at_ns: u64,
    /// In which part of the program.
    pub component: &'a str,
    /// What.
    pub text: &'a str,
}

impl Told<'_> {
    pub(super) const fn is_empty(&self) -> bool {
        self.values.is_empty() && self.crumbs.is_empty()
    }
}

pub(super) fn write_told(w: &mut Writer<'_>, told: &Told<'_>) {
    w.u16(told.values.len() as u16);
    for (name, value) in told.values {
        w.string(name.as_bytes());
        w.string(value.as_bytes());
    }
    w.u16(told.crumbs.len() as u16);
    for crumb in told.crumbs {
        w.u64(crumb.at_ns);
        w.string(crumb.component.as_bytes());
        w.string(crumb.text.as_bytes());
    }
}
