//! What a report's texts say that no crash report has a line for.

use super::apple::field;
use super::clean::Clean;
use super::episode::write_episode;
use super::list::duration;
use super::locks::{lock_note, write_locks};
use crate::read::{HeldHow, Record, RecordKind, SetHow, Thread};
use std::io::{Result, Write};

/// What was watched and how, and what that cost.
pub(super) fn write_details(out: &mut dyn Write, record: &Record) -> Result<()> {
    let crash = record.kind == RecordKind::Crash;
    write_episode(out, record)?;
    if !crash {
        write_watch(out, record)?;
    }
    write_locks(out, record)?;
    write_cost(out, record)?;
    if !crash {
        field(
            out,
            "Watcher",
            format_args!("{} wake-ups, {} ticks too late to count", record.wakeups, record.late_ticks),
        )?;
    }
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
    Ok(())
}

/// What was watched, and when it counted as frozen.
fn write_watch(out: &mut dyn Write, record: &Record) -> Result<()> {
    let times = &record.times;
    let threshold = record.threshold.interval_ns.saturating_mul(record.threshold.misses.into());
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
    )
}

/// How long threads were held, how the process was, and how long it took to find that out.
fn write_cost(out: &mut dyn Write, record: &Record) -> Result<()> {
    let times = &record.times;
    let held = duration(record.watched().map_or(0, |thread| thread.held.ns));
    // The one that has crashed took the others' stacks.
    let watched = match record.kind {
        RecordKind::Crash => String::new(),
        _ => format!("watched thread {held}, "),
    };
    field(
        out,
        "Time Held",
        format_args!(
            "{watched}longest {}, all {} in {} thread{}",
            duration(times.held_longest_ns),
            duration(times.held_total_ns),
            record.threads.len(),
            if record.threads.len() == 1 { "" } else { "s" }
        ),
    )?;
    write_vitals(out, record)?;
    let why = record.set.why_not.as_deref().unwrap_or("no reason is given");
    match record.set.how {
        SetHow::OneByOne => {}
        SetHow::Together => field(out, "Held Together", duration(record.set.ns))?,
        SetHow::NotTogether | SetHow::Unknown => field(out, "Held One By One", why)?,
    }
    field(out, "Capture Took", duration(times.capture_ended_ns.saturating_sub(times.capture_started_ns)))
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

/// What a reader of a thread's frames must know of them.
pub(super) fn thread_notes(record: &Record, thread: &Thread) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(thread.lock.as_ref().map(|lock| lock_note(record, lock)));
    match (thread.held.how, &thread.held.why_not) {
        (HeldHow::Not, why) => {
            notes.push(format!("no stack: {}", why.as_deref().unwrap_or("no reason is given")));
            return notes;
        }
        (HeldHow::Torn, _) => {
            notes.push("the thread went on before its stack was copied: frames may be wrong".to_owned());
        }
        _ => {}
    }
    let way = match thread.held.how {
        HeldHow::Peek => "it waited in the kernel while it was read".into(),
        HeldHow::Signal => format!("held by a signal for {}", duration(thread.held.ns)),
        HeldHow::Ptrace => format!("held by a tracer for {}", duration(thread.held.ns)),
        HeldHow::Mach => format!("held for {}", duration(thread.held.ns)),
        _ => String::new(),
    };
    match &thread.held.why_not {
        _ if way.is_empty() => {}
        Some(why) => notes.push(format!("{way}; in no better way: {why}")),
        None => notes.push(way),
    }
    if thread.moved {
        notes.push("the freeze had ended when this stack was taken: it does not show the cause".to_owned());
    }
    if let Some(repeat) = thread.repeat {
        let last =
            repeat.first.saturating_add(repeat.times.saturating_mul(repeat.period.into())).saturating_sub(1);
        let rounds = if repeat.period == 1 { "1 frame".into() } else { format!("{} frames", repeat.period) };
        notes.push(format!("frames {} to {last} repeat: {} times {rounds}", repeat.first, repeat.times));
    }
    if thread.stop.code != 1 {
        notes.push(format!("the walk ended early: {}", thread.stop.text));
    }
    notes
}
