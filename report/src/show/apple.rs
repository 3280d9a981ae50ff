//! Apple's crash report, version 104, as PLCrashReporter writes it and servers read it. What the text form has as well is
//! here, too.
//!
//! A crash's *Exception Type* is the signal, its *Exception Codes* say why it came. A freeze is no crash, and this form knows
//! nothing else, so that some lines need a meaning:
//! - *Exception Type* is `FREEZE`, *Exception Codes* say how long and how it ended. The numbers that Apple writes there
//!   (`0x8badf00d`) would claim that Apple's watchdog had ended the process.
//! - The watched thread is the one that *crashed*: readers group by the stack of that thread, and by none if there is none.
//! - A freeze that the process has survived carries Apple's note for such reports: it is not a crash.
//! - What else is known stands under *Application Specific Information*, which readers keep as it is. That is also where
//!   lines about single threads go: between a thread's frames they would end it for readers.
//! - Images have their debug ids, since readers take nothing but UUIDs; of ELF that is the one which symbol servers use. An
//!   image without any has the UUID of zeros.
//! - Frames that were left out leave a gap in the numbers.

use super::clean::Clean;
use super::crash::write_signal;
use super::episode::write_samples;
use super::list::duration;
use super::notes::{thread_notes, write_details};
use crate::read::{Frame, Image, Record, RecordKind, RecordOutcome, Thread};
use std::io::{Result, Write};

/// Writes a record as a crash report of Apple's.
///
/// # Errors
/// The output's.
pub fn write_apple(out: &mut dyn Write, record: &Record) -> Result<()> {
    write_head(out, record)?;
    write_exception(out, record)?;
    let over = !matches!(record.outcome, RecordOutcome::Ongoing | RecordOutcome::Recovered);
    if record.kind != RecordKind::Crash && !over {
        field(out, "Exception Note", "NON-FATAL CONDITION (this is NOT a crash)")?;
    }
    write_crashed_thread(out, record)?;
    writeln!(out, "\nApplication Specific Information:")?;
    write_details(out, record)?;
    for (index, thread) in record.threads.iter().enumerate() {
        for note in thread_notes(record, thread) {
            writeln!(out, "thread {index}: {note}")?;
        }
        if thread.omitted > 0 {
            writeln!(
                out,
                "thread {index}: {} frames left out behind {}",
                thread.omitted, thread.omitted_after
            )?;
        }
    }
    write_samples(out, record)?;
    writeln!(out)?;
    for (index, thread) in record.threads.iter().enumerate() {
        write_thread_head(out, index, thread)?;
        for (number, frame) in numbered(thread) {
            write_frame(out, record, number, frame)?;
        }
        writeln!(out)?;
    }
    for (index, thread) in record.threads.iter().enumerate().filter(|(_, thread)| thread.watched) {
        write_registers(out, record, index, thread)?;
    }
    write_images(out, record, debug_id)
}

/// The debug id without hyphens.
fn debug_id(image: &Image) -> String {
    image.debug_id.as_ref().map_or_else(|| "0".repeat(32), |id| id.replace('-', ""))
}

/// A line of the head.
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

pub(super) fn write_head(out: &mut dyn Write, record: &Record) -> Result<()> {
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
        let translated = if process.translated { " (Translated)" } else { "" };
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
        field(out, "OS Version", format_args!("{}{build}", Clean(&system.os)))?;
    }
    field(out, "Report Version", 104)?;
    writeln!(out)
}

pub(super) fn write_exception(out: &mut dyn Write, record: &Record) -> Result<()> {
    if record.kind == RecordKind::Crash {
        return write_signal(out, record);
    }
    let ended = match record.outcome {
        RecordOutcome::Ongoing => "still going on",
        RecordOutcome::Recovered => "recovered",
        RecordOutcome::Killed => "the process ended in the middle of it",
        RecordOutcome::Unknown => "the monitor was stopped before its end",
    };
    let what = match record.kind {
        RecordKind::NeverIdle => "NEVER IDLE",
        RecordKind::CpuHigh => "CPU HIGH",
        _ => "FREEZE",
    };
    field(out, "Exception Type", what)?;
    field(out, "Exception Codes", format_args!("{}, {ended}", duration(record.duration_ns)))
}

pub(super) fn write_crashed_thread(out: &mut dyn Write, record: &Record) -> Result<()> {
    let watched = record.threads.iter().position(|thread| thread.watched);
    field(out, "Crashed Thread", watched.map_or_else(|| "unknown".to_owned(), |index| index.to_string()))
}

pub(super) fn write_thread_head(out: &mut dyn Write, index: usize, thread: &Thread) -> Result<()> {
    if !thread.name.is_empty() {
        writeln!(out, "Thread {index} name:  {}", Clean(&thread.name))?;
    }
    writeln!(out, "Thread {index}{}:", if thread.watched { " Crashed" } else { "" })
}

/// The frames with their numbers, which count those that were left out.
pub(super) fn numbered(thread: &Thread) -> impl Iterator<Item = (u64, &Frame)> {
    thread.frames.iter().enumerate().map(|(position, frame)| {
        let behind_gap = position >= thread.omitted_after as usize;
        (if behind_gap { thread.omitted } else { 0 }.saturating_add(position as u64), frame)
    })
}

pub(super) fn write_frame(out: &mut dyn Write, record: &Record, number: u64, frame: &Frame) -> Result<()> {
    let image = record.image(frame);
    let name = image.map_or("???", Image::name);
    // No file's name is longer; a report could have one in each of its frames.
    write!(out, "{number:<3} {:<35.255} {:#018x} ", Clean(name), frame.address)?;
    match (&frame.symbol, image) {
        (Some(symbol), _) => writeln!(out, "{} + {}", Clean(&symbol.name), symbol.offset),
        (None, Some(image)) => {
            writeln!(out, "{:#x} + {}", image.load_address, frame.address.wrapping_sub(image.load_address))
        }
        (None, None) => writeln!(out, "0x0 + {}", frame.address),
    }
}

pub(super) fn write_registers(
    out: &mut dyn Write,
    record: &Record,
    index: usize,
    thread: &Thread,
) -> Result<()> {
    if thread.registers.is_empty() {
        return Ok(());
    }
    let crashed = if thread.watched { "crashed with " } else { "" };
    writeln!(out, "Thread {index} {crashed}{} Thread State:", code_type(record.architecture))?;
    for row in thread.registers.chunks(4) {
        for (name, value) in row {
            let name = if *name == "pstate" { "cpsr" } else { name };
            write!(out, " {name:>6}: {value:#018x}")?;
        }
        writeln!(out)?;
    }
    writeln!(out)
}

pub(super) fn write_images(out: &mut dyn Write, record: &Record, id: fn(&Image) -> String) -> Result<()> {
    writeln!(out, "Binary Images:")?;
    let program = record.process.as_ref().map(|process| process.path.as_str());
    let mut images: Vec<&Image> = record.images.iter().filter(|image| image.kind != "anonymous").collect();
    images.sort_by_key(|image| image.load_address);
    for image in images {
        // The end is inclusive in this form.
        let end = image.load_address.saturating_add(image.size.saturating_sub(1));
        let own = if program == Some(image.path.as_str()) { '+' } else { ' ' };
        let path = if image.path.is_empty() { "???" } else { &image.path };
        writeln!(
            out,
            "{:#18x} - {end:#18x} {own}{} {}  <{}> {}",
            image.load_address,
            Clean(image.name()),
            image.architecture,
            id(image),
            Clean(path)
        )?;
    }
    Ok(())
}
