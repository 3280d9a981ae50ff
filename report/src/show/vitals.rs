//! How the process and its machine were, in words.

use super::apple::field;
use super::clean::Clean;
use super::list::duration;
use crate::read::{PressureInfo, ProcessInfo, Record, VitalsInfo};
use std::io::{Result, Write};

/// How the process and the machine were at the detection.
pub(super) fn write_vitals(out: &mut dyn Write, record: &Record) -> Result<()> {
    if let Some(process) = &record.process {
        if process.app_state != "unknown" {
            field(out, "App State", process.app_state)?;
        }
        if process.debugged {
            field(out, "Debugger", "attached")?;
        }
        if let Some(cpu_ns) = process.cpu_ns {
            field(out, "CPU Time", format_args!("{} in all threads", duration(cpu_ns)))?;
        }
    }
    match &record.vitals {
        Some(vitals) => write_looked_at(out, vitals)?,
        None => write_memory_of_process(out, record, record.process.as_ref())?,
    }
    if let Some(system) = &record.system {
        field(out, "Kernel", Clean(&system.kernel))?;
    }
    if let Some(continuous_ns) = record.times.continuous_ns {
        let awake_ns = record.times.detected_ns;
        // The two clocks were not read at the same instant.
        let slept = match continuous_ns.saturating_sub(awake_ns) {
            0..1_000_000_000 => String::new(),
            slept_ns => format!(", {} of sleep not counted", duration(slept_ns)),
        };
        field(out, "Uptime", format_args!("{}{slept}", duration(awake_ns)))?;
    }
    Ok(())
}

/// What a record without a section of vitals knows of the memory.
fn write_memory_of_process(
    out: &mut dyn Write,
    record: &Record,
    process: Option<&ProcessInfo>,
) -> Result<()> {
    let machine = record.system.as_ref().and_then(|system| system.memory_bytes);
    let footprint = process.and_then(|process| process.footprint_bytes);
    if let (Some(footprint), Some(machine)) = (footprint, machine) {
        field(out, "Memory", format_args!("footprint {}, machine {}", size(footprint), size(machine)))?;
    }
    Ok(())
}

fn write_looked_at(out: &mut dyn Write, vitals: &VitalsInfo) -> Result<()> {
    if let Some(cpu) = &vitals.cpu {
        let (percent, time) = (cpu.percent, duration(cpu.window_ns));
        field(out, "CPU Share", format_args!("{percent:.0} % of one processor, for {time}"))?;
    }
    if let (Some(footprint), Some(resident)) = (vitals.footprint_bytes, vitals.resident_bytes) {
        field(out, "Memory", format_args!("footprint {}, resident {}", size(footprint), size(resident)))?;
    }
    if let Some(memory) = &vitals.memory {
        let (available, total) = (size(memory.available_bytes), size(memory.total_bytes));
        field(out, "Memory Left", format_args!("{available} of {total} ({})", memory.of))?;
    }
    if let Some(pressure) = &vitals.pressure {
        field(out, "Memory Pressure", in_words(pressure))?;
    }
    if let Some(open) = vitals.open_files {
        let limit = vitals.open_files_limit.map_or_else(String::new, |limit| format!(" of {limit}"));
        field(out, "Open Files", format_args!("{open}{limit}"))?;
    }
    if let Some(frames) = vitals.frames_per_second {
        field(out, "Frames", format_args!("{frames:.1} in the second before"))?;
    }
    Ok(())
}

fn in_words(pressure: &PressureInfo) -> String {
    let lost = |share: Option<f64>, who| share.map(|share| format!("{who} waited {share:.2} % of 10 s"));
    let level = pressure.level.map(str::to_owned);
    let parts = [level, lost(pressure.some_percent, "some task"), lost(pressure.full_percent, "all")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Bytes in the unit that suits them, to three digits.
fn size(bytes: u64) -> String {
    let (value, unit) = match bytes {
        0..0x10_0000 => (bytes as f64 / 1024.0, "KiB"),
        0x10_0000..0x4000_0000 => (bytes as f64 / 1_048_576.0, "MiB"),
        _ => (bytes as f64 / 1_073_741_824.0, "GiB"),
    };
    let digits = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}
