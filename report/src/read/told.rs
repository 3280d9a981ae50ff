//! What the program told of itself.

use super::cursor::Cursor;
use serde::Serialize;

/// What the program told of itself before the freeze.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToldInfo {
    /// Names and values.
    pub values: Vec<(String, String)>,
    /// What happened last, oldest first.
    pub breadcrumbs: Vec<CrumbInfo>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CrumbInfo {
    /// When, on the monotonic clock.
    pub at_ns: u64,
    /// In which part of the program.
    pub component: String,
    /// What.
    pub text: String,
}

pub(super) fn told(c: &mut Cursor<'_>) -> Option<ToldInfo> {
    let count = c.u16()?;
    let values = (0..count).map(|_| Some((c.text()?, c.text()?))).collect::<Option<Vec<_>>>()?;
    let count = c.u16()?;
    let crumb = |_| Some(CrumbInfo { at_ns: c.u64()?, component: c.text()?, text: c.text()? });
    let breadcrumbs = (0..count).map(crumb).collect::<Option<Vec<_>>>()?;
    Some(ToldInfo { values, breadcrumbs })
}
