//! The signal that ends a program.

use super::writer::Writer;

/// A signal as its handler heard of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash<'a> {
    /// Its number.
    pub signal: i32,
    /// Its code, `si_code`: why it came.
    pub code: i32,
    /// The address that it is about, if it is about one.
    pub address: Option<u64>,
    /// Who sent it, if it was sent.
    pub sender: Option<Sender>,
    /// Its name: `SIGSEGV`.
    pub name: &'a str,
    /// Its code's name: `SEGV_MAPERR`; empty if it has none.
    pub code_name: &'a str,
}

/// Who sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The process.
    pub pid: u32,
    /// Its real user id.
    pub uid: u32,
}

/// Bits of what is known.
pub(crate) mod known {
    pub(crate) const ADDRESS: u8 = 1;
    pub(crate) const SENDER: u8 = 2;
}

pub(super) fn write_crash(w: &mut Writer<'_>, crash: &Crash<'_>) {
    let address = if crash.address.is_some() { known::ADDRESS } else { 0 };
    let sender = if crash.sender.is_some() { known::SENDER } else { 0 };
    w.u32(crash.signal as u32);
    w.u32(crash.code as u32);
    w.u8(address | sender);
    w.u64(crash.address.unwrap_or(0));
    w.u32(crash.sender.map_or(0, |sender| sender.pid));
    w.u32(crash.sender.map_or(0, |sender| sender.uid));
    w.string(crash.name.as_bytes());
    w.string(crash.code_name.as_bytes());
}
