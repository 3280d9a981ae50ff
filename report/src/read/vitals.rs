//! How the process and its machine were.

use super::cursor::Cursor;
use crate::encode::{CpuShare, MemoryOf, PressureLevel};
use serde::Serialize;

/// How the process and its machine were at the detection. What is not known is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VitalsInfo {
    /// What all threads computed shortly before.
    pub cpu: Option<CpuInfo>,
    /// Memory that nobody but the process needed, in bytes.
    pub footprint_bytes: Option<u64>,
    /// What of its memory was resident, in bytes.
    pub resident_bytes: Option<u64>,
    /// The memory that was left.
    pub memory: Option<MemoryInfo>,
    /// How scarce memory was.
    pub pressure: Option<PressureInfo>,
    /// Open descriptors.
    pub open_files: Option<u32>,
    /// How many may be open.
    pub open_files_limit: Option<u32>,
    /// Frames that the program had drawn in a second.
    pub frames_per_second: Option<f64>,
}

/// CPU time in a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CpuInfo {
    /// CPU time of all threads.
    pub cpu_ns: u64,
    /// The time that it is of.
    pub window_ns: u64,
    /// In percent of one processor.
    pub percent: f64,
}

/// The memory that was left, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryInfo {
    /// Of what: `machine`, or a `limit` that was closer.
    pub of: &'static str,
    /// How much there is.
    pub total_bytes: u64,
    /// How much of it was to be had.
    pub available_bytes: u64,
}

/// How scarce memory was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PressureInfo {
    /// What the system calls it: `normal`, `warning`, `critical`.
    pub level: Option<&'static str>,
    /// Share of ten seconds in which some task waited for memory.
    pub some_percent: Option<f64>,
    /// Share of them in which all did.
    pub full_percent: Option<f64>,
}

pub(super) fn vitals(c: &mut Cursor<'_>) -> Option<VitalsInfo> {
    let cpu = known(c.u64()?).zip(known(c.u64()?));
    let cpu = cpu.map(|(cpu_ns, window_ns)| CpuInfo {
        cpu_ns,
        window_ns,
        percent: CpuShare { cpu_ns, window_ns }.percent(),
    });
    let (footprint_bytes, resident_bytes) = (known(c.u64()?), known(c.u64()?));
    let of = c.u8()?;
    let memory = known(c.u64()?).zip(known(c.u64()?));
    let memory = memory.map(|(total_bytes, available_bytes)| MemoryInfo {
        of: match of {
            of if of == MemoryOf::Machine as u8 => "machine",
            of if of == MemoryOf::Limit as u8 => "limit",
            _ => "unknown",
        },
        total_bytes,
        available_bytes,
    });
    let level = match c.u8()? {
        level if level == PressureLevel::Normal as u8 => Some("normal"),
        level if level == PressureLevel::Warning as u8 => Some("warning"),
        level if level == PressureLevel::Critical as u8 => Some("critical"),
        _ => None,
    };
    let (some_percent, full_percent) = (hundredths(c.u32()?), hundredths(c.u32()?));
    let any = level.is_some() || some_percent.is_some() || full_percent.is_some();
    Some(VitalsInfo {
        cpu,
        footprint_bytes,
        resident_bytes,
        memory,
        pressure: any.then_some(PressureInfo { level, some_percent, full_percent }),
        open_files: number(c.u32()?),
        open_files_limit: number(c.u32()?),
        frames_per_second: hundredths(c.u32()?),
    })
}

fn known(value: u64) -> Option<u64> {
    (value != u64::MAX).then_some(value)
}

fn number(value: u32) -> Option<u32> {
    (value != u32::MAX).then_some(value)
}

fn hundredths(value: u32) -> Option<f64> {
    number(value).map(|value| f64::from(value) / 100.0)
}
