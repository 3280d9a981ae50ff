//! How the process and its machine were.

use super::writer::Writer;

/// How the process and its machine were. What is not known is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vitals {
    /// What all threads computed since the watched one was first looked at.
    pub cpu: Option<CpuShare>,
    /// The process's memory.
    pub process: Option<ProcessMemory>,
    /// The memory that is left.
    pub memory: Option<AvailableMemory>,
    /// How scarce memory is.
    pub pressure: Option<MemoryPressure>,
    /// Open files.
    pub files: Option<OpenFiles>,
    /// Frames drawn in a second, in hundredths.
    pub frames_centi: Option<u32>,
}

/// CPU time in a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuShare {
    /// CPU time in nanoseconds.
    pub cpu_ns: u64,
    /// Of so many nanoseconds.
    pub window_ns: u64,
}

impl CpuShare {
    /// In percent of one processor: two that are busy make 200. Zero of no time.
    pub fn percent(&self) -> f64 {
        if self.window_ns == 0 { 0.0 } else { self.cpu_ns as f64 * 100.0 / self.window_ns as f64 }
    }
}

/// The memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// What nobody but the process needs. Linux: its anonymous memory, resident or swapped out. Apple: `phys_footprint`.
    pub footprint_bytes: u64,
    /// What of its memory is resident, files and what it shares with others included.
    pub resident_bytes: u64,
}

/// Whose memory it is that is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MemoryOf {
    /// The machine's.
    Machine = 1,
    /// What a limit allows that is closer than the machine's. Linux: of a control group of version 2. Apple: of the process.
    Limit = 2,
}

/// The memory that is left, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AvailableMemory {
    /// Of what.
    pub of: MemoryOf,
    /// How much there is.
    pub total_bytes: u64,
    /// How much of it is to be had, caches included that can be given up.
    pub available_bytes: u64,
}

impl AvailableMemory {
    /// How much of it is in use.
    pub fn used_bytes(&self) -> u64 {
        self.total_bytes.saturating_sub(self.available_bytes)
    }
}

/// What a system calls its memory pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PressureLevel {
    /// None to speak of.
    Normal = 1,
    /// Programs should give up what they can.
    Warning = 2,
    /// Programs will be ended soon.
    Critical = 3,
}

/// How scarce memory is, as the system tells it: Apple's by a level, Linux by the time that is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryPressure {
    /// Apple: the level.
    pub level: Option<PressureLevel>,
    /// Linux: how much of the last ten seconds some task on the machine waited for memory, in hundredths of a percent.
    pub some_centi: Option<u32>,
    /// Linux: how much of it all of them did, in hundredths of a percent.
    pub full_centi: Option<u32>,
}

/// How many files, sockets and so on a process has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// Open descriptors.
    pub open: u32,
    /// How many there may be; none: as many as one likes.
    pub limit: Option<u32>,
}

pub(super) fn write_vitals(w: &mut Writer<'_>, vitals: &Vitals) {
    w.u64(vitals.cpu.map_or(u64::MAX, |cpu| cpu.cpu_ns));
    w.u64(vitals.cpu.map_or(u64::MAX, |cpu| cpu.window_ns));
    w.u64(vitals.process.map_or(u64::MAX, |process| process.footprint_bytes));
    w.u64(vitals.process.map_or(u64::MAX, |process| process.resident_bytes));
    w.u8(vitals.memory.map_or(0, |memory| memory.of as u8));
    w.u64(vitals.memory.map_or(u64::MAX, |memory| memory.total_bytes));
    w.u64(vitals.memory.map_or(u64::MAX, |memory| memory.available_bytes));
    let pressure = vitals.pressure.unwrap_or_default();
    w.u8(pressure.level.map_or(0, |level| level as u8));
    w.u32(pressure.some_centi.unwrap_or(u32::MAX));
    w.u32(pressure.full_centi.unwrap_or(u32::MAX));
    w.u32(vitals.files.map_or(u32::MAX, |files| files.open));
    w.u32(vitals.files.and_then(|files| files.limit).unwrap_or(u32::MAX));
    w.u32(vitals.frames_centi.unwrap_or(u32::MAX));
}
