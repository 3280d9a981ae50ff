//! The text form: Apple's crash report, version 104, as PLCrashReporter writes it and servers read it, with what a freeze
//! needs beside it.

use super::clean::Clean;
use super::crash::write_crash;
use super::list::duration;
use crate::read::{Frame, HeldHow, Image, Record, RecordKind, RecordOutcome, Thread};
use std::io::{Result, Write};

/// Whose registers to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegistersOf {
    /// The watched thread's.
    #[default]
    Watched,
    /// Every thread's.
    All,
}

/// How to write a record as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextOptions {
    /// Whose registers to print.
    pub registers: RegistersOf,
    /// Emphasis for a terminal.
    pub color: bool,
}

/// Writes a record as text.
///
/// # Errors
/// The output's.
pub fn write_text(out: &mut dyn Write, record: &Record, options: TextOptions) -> Result<()> {
    write_head(out, record)?;
    match record.kind {
        RecordKind::Crash => write_crash(out, record)?,
        _ => write_freeze(out, record)?,
    }
    write_incomplete(out, record)?;
    for (index, thread) in record.threads.iter().enumerate() {
        write_thread(out, record, index, thread, options)?;
    }
    for (index, thread) in record.threads.iter().enumerate() {
        if thread.watched || options.registers == RegistersOf::All {
            write_registers(out, record, index, thread)?;
        }
    }
    write_images(out, record)
}

pub(super) fn field(out: &mut dyn Write, name: &str, value: impl std::fmt::Display) -> Result<()> {
    writeln!(out, "{:<20} {value}", format!("{name}:"))
}

fn code_type(architecture: &str) -> &'static str {
    match architecture {
        "x86_64" => "X86-64",
        "arm64" => "ARM-64",
        _ => "Unknown",
    }
}

fn write_head(out: &mut dyn Write, record: &Record) -> Result<()> {
    field(out, "Incident Identifier", record.uuid.to_uppercase())?;
    field(out, "CrashReporter Key", &record.boot_id)?;
    if let Some(system) = &record.system {
        field(out, "Hardware Model", Clean(&system.model))?;
    }
    if let Some(process) = &record.process {
        field(out, "Process", format_args!("{} [{}]", Clean(&process.name), process.pid))?;
        field(out, "Path", Clean(&process.path))?;
        field(out, "Identifier", Clean(&process.app))?;
        field(out, "Version", Clean(&process.version))?;
        let translated = if process.translated { " (translated)" } else { "" };
        field(out, "Code Type", format_args!("{}{translated}", code_type(record.architecture)))?;
        field(out, "Parent Process", format_args!("{} [{}]", Clean(&process.parent_name), process.parent))?;
    }
    writeln!(out)?;
    let wall = &record.times.wall;
    let (date, time) = wall.split_once('T').unwrap_or((wall, ""));
    let time = time.trim_end_matches('Z');
    let millis = time.find('.').map_or(time, |dot| time.get(..dot + 4).unwrap_or(time));
    field(out, "Date/Time", format_args!("{date} {millis} +0000"))?;
    if let Some(system) = &record.system {
        let build =
            if system.build.is_empty() { String::new() } else { format!(" ({})", Clean(&system.build)) };
        let (os, kernel) = (Clean(&system.os), Clean(&system.kernel));
        field(out, "OS Version", format_args!("{os}{build} (kernel {kernel})"))?;
    }
    field(out, "Report Version", 104)?;
    writeln!(out)
}

fn write_freeze(out: &mut dyn Write, record: &Record) -> Result<()> {
    let times = &record.times;
    let threshold = record.threshold.interval_ns.saturating_mul(record.threshold.misses.into());
    let ended = match record.outcome {
        RecordOutcome::Ongoing => "still going on",
        RecordOutcome::Recovered => "recovered",
        RecordOutcome::Killed => "the process ended in the middle of it",
        RecordOutcome::Unknown => "the monitor was stopped before its end",
    };
    field(out, "Exception Type", "FREEZE")?;
    field(out, "Exception Codes", format_args!("{}, {ended}", duration(record.duration_ns)))?;
    write_crashed_thread(out, record)?;
    field(out, "Component", Clean(&record.component))?;
    let activity = record.last_activity.map_or_else(String::new, |name| format!(", last activity {name}"));
    field(out, "Watched By", format_args!("{}{activity}", record.strategy.name()))?;
    field(
        out,
        "Threshold",
        format_args!(
            "{} timeouts of {} in a row ({})",
            record.threshold.misses,
            duration(record.threshold.interval_ns),
            duration(threshold)
        ),
    )?;
    let after = times.detected_ns.saturating_sub(times.started_ns);
    field(
        out,
        "Detected",
        format_args!(
            "{} after the last sign of life, {} after the threshold",
            duration(after),
            duration(times.detection_delay_ns)
        ),
    )?;
    let held = record.watched().map_or(0, |thread| thread.held.ns);
    write_cost(out, record, format_args!("watched thread {}, ", duration(held)))?;
    field(
        out,
        "Watcher",
        format_args!("{} wake-ups, {} ticks too late to count", record.wakeups, record.late_ticks),
    )
}

pub(super) fn write_crashed_thread(out: &mut dyn Write, record: &Record) -> Result<()> {
    let watched = record.threads.iter().position(|thread| thread.watched);
    field(out, "Crashed Thread", watched.map_or_else(|| "unknown".to_owned(), |index| index.to_string()))?;
    writeln!(out)
}

/// How long threads were held, how the process was, and how long that took to find out.
pub(super) fn write_cost(
    out: &mut dyn Write,
    record: &Record,
    watched: std::fmt::Arguments<'_>,
) -> Result<()> {
    let times = &record.times;
    let threads = record.threads.len();
    let plural = if threads == 1 { "" } else { "s" };
    let (longest, all) = (duration(times.held_longest_ns), duration(times.held_total_ns));
    field(
        out,
        "Time Held",
        format_args!("{watched}longest {longest}, all {all} in {threads} thread{plural}"),
    )?;
    write_vitals(out, record)?;
    field(out, "Capture Took", duration(times.capture_ended_ns.saturating_sub(times.capture_started_ns)))
}

fn write_incomplete(out: &mut dyn Write, record: &Record) -> Result<()> {
    if let Some(dropped) = record.dropped.filter(|d| d.threads > 0 || d.images > 0 || d.frames > 0) {
        field(
            out,
            "Left Out",
            format_args!("{} threads, {} images, {} frames", dropped.threads, dropped.images, dropped.frames),
        )?;
    }
    for fault in &record.faults {
        field(out, "Incomplete", Clean(fault))?;
    }
    writeln!(out)
}

/// How the process and the machine were at the detection.
fn write_vitals(out: &mut dyn Write, record: &Record) -> Result<()> {
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
        let machine = record.system.as_ref().and_then(|system| system.memory_bytes);
        if let (Some(footprint), Some(machine)) = (process.footprint_bytes, machine) {
            field(out, "Memory", format_args!("footprint {}, machine {}", size(footprint), size(machine)))?;
        }
    }
    if let Some(continuous_ns) = record.times.continuous_ns {
        let awake_ns = record.times.detected_ns;
        let slept = duration(continuous_ns.saturating_sub(awake_ns));
        field(out, "Uptime", format_args!("{}, {slept} of sleep not counted", duration(awake_ns)))?;
    }
    Ok(())
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

fn write_thread(
    out: &mut dyn Write,
    record: &Record,
    index: usize,
    thread: &Thread,
    options: TextOptions,
) -> Result<()> {
    let (bold, plain) = if options.color && thread.watched { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    writeln!(out, "Thread {index} name:  {}", Clean(&thread.name))?;
    let crashed = if thread.watched { " Crashed" } else { "" };
    writeln!(out, "{bold}Thread {index}{crashed}:{plain}")?;
    write_thread_notes(out, thread)?;
    // Where two halves of a deep stack meet, the index goes on as if the frames left out were there.
    for (position, frame) in thread.frames.iter().enumerate() {
        let mut number = position as u64;
        if thread.omitted > 0 && position >= thread.omitted_after as usize {
            if position == thread.omitted_after as usize {
                writeln!(out, "... {} frames left out ...", thread.omitted)?;
            }
            number = number.saturating_add(thread.omitted);
        }
        write_frame(out, record, number, frame)?;
    }
    writeln!(out)
}

fn write_thread_notes(out: &mut dyn Write, thread: &Thread) -> Result<()> {
    let call = thread
        .system_call
        .as_ref()
        .map_or_else(String::new, |call| format!(", in system call {}", call.number));
    writeln!(out, "# tid {}, {}{call}, {} CPU", thread.id, thread.state, duration(thread.cpu_ns))?;
    match (thread.held.how, &thread.held.why_not) {
        (HeldHow::Not, why) => {
            let why = why.as_deref().unwrap_or("no reason is given");
            return writeln!(out, "# no stack: {why}");
        }
        (HeldHow::Torn, _) => {
            writeln!(out, "# the thread went on before its stack was copied: frames may be wrong")?
        }
        _ => {}
    }
    if thread.moved {
        writeln!(out, "# the freeze had ended when this stack was taken: it does not show the cause")?;
    }
    if let Some(repeat) = thread.repeat {
        let last =
            repeat.first.saturating_add(repeat.times.saturating_mul(repeat.period.into())).saturating_sub(1);
        let rounds = if repeat.period == 1 { "1 frame".into() } else { format!("{} frames", repeat.period) };
        writeln!(out, "# frames {} to {last} repeat: {} times {rounds}", repeat.first, repeat.times)?;
    }
    if thread.stop.code != 1 {
        writeln!(out, "# the walk ended early: {}", thread.stop.text)?;
    }
    Ok(())
}

fn write_frame(out: &mut dyn Write, record: &Record, number: u64, frame: &Frame) -> Result<()> {
    let image = record.image(frame);
    let name = image.map_or("???", Image::name);
    write!(out, "{number:<3} {:<35} {:#018x} ", Clean(name), frame.address)?;
    match (&frame.symbol, image) {
        (Some(symbol), _) => writeln!(out, "{} + {}", Clean(&symbol.name), symbol.offset),
        (None, Some(image)) => {
            writeln!(out, "{:#x} + {}", image.load_address, frame.address.wrapping_sub(image.load_address))
        }
        (None, None) => writeln!(out, "0x0 + {}", frame.address),
    }
}

fn write_registers(out: &mut dyn Write, record: &Record, index: usize, thread: &Thread) -> Result<()> {
    if thread.registers.is_empty() {
        return Ok(());
    }
    let crashed = if thread.watched { "crashed with " } else { "" };
    let state = match record.architecture {
        "arm64" => "ARM-64",
        _ => "X86-64",
    };
    writeln!(out, "Thread {index} {crashed}{state} Thread State:")?;
    for row in thread.registers.chunks(4) {
        for (name, value) in row {
            write!(out, " {name:>6}: {value:#018x}")?;
        }
        writeln!(out)?;
    }
    writeln!(out)
}

fn write_images(out: &mut dyn Write, record: &Record) -> Result<()> {
    writeln!(out, "Binary Images:")?;
    let program = record.process.as_ref().map(|process| process.path.as_str());
    let mut images: Vec<&Image> = record.images.iter().filter(|image| image.kind != "anonymous").collect();
    images.sort_by_key(|image| image.load_address);
    for image in images {
        // The end is inclusive in this form.
        let end = image.load_address.saturating_add(image.size).saturating_sub(1);
        let own = if program == Some(image.path.as_str()) { '+' } else { ' ' };
        let id = if image.build_id.is_empty() { "no-build-id" } else { &image.build_id };
        let (start, name) = (image.load_address, Clean(image.name()));
        writeln!(
            out,
            "{start:#18x} - {end:#18x} {own}{name} {}  <{id}> {}",
            record.architecture,
            Clean(&image.path)
        )?;
    }
    Ok(())
}
