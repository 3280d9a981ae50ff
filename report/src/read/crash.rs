//! The signal that ended a program.

use super::cursor::Cursor;
use crate::encode::crash_known as known;
use serde::{Serialize, Serializer};

fn hex<S: Serializer>(value: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(&format_args!("{value:#x}")),
        None => serializer.serialize_none(),
    }
}

/// A signal that ended a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CrashInfo {
    /// Its number.
    pub signal: i32,
    /// Its name: `SIGSEGV`.
    pub name: String,
    /// Its code: why it came.
    pub code: i32,
    /// Its code's name: `SEGV_MAPERR`; empty if it has none.
    pub code_name: String,
    /// The address that it is about, if it is about one.
    #[serde(serialize_with = "hex")]
    pub address: Option<u64>,
    /// Who sent it, if it was sent.
    pub sender: Option<SenderInfo>,
}

/// Who sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SenderInfo {
    /// The process.
    pub pid: u32,
    /// Its real user id.
    pub uid: u32,
}

pub(super) fn crash(c: &mut Cursor<'_>) -> Option<CrashInfo> {
    let (signal, code, is_known) = (c.u32()? as i32, c.u32()? as i32, c.u8()?);
    let (address, sender) = (c.u64()?, SenderInfo { pid: c.u32()?, uid: c.u32()? });
    Some(CrashInfo {
        signal,
        code,
        address: (is_known & known::ADDRESS != 0).then_some(address),
        sender: (is_known & known::SENDER != 0).then_some(sender),
        name: c.text()?,
        code_name: c.text()?,
    })
}
