//! A freeze's cause, its severity, and what was going on meanwhile, in words.

use super::apple::field;
use super::clean::Clean;
use super::list::duration;
use crate::read::{CauseKind, EpisodeInfo, Record, SamplesInfo, SeverityLevel, StackInfo, ToldInfo};
use std::io::{Result, Write};

impl CauseKind {
    /// A few words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CpuBound => "computing",
            Self::Lock => "waiting for a lock",
            Self::Io => "input or output",
            Self::Sleeping => "sleeping",
            Self::Child => "waiting for a child process",
            Self::Peer => "waiting for somebody else",
            Self::Idle => "idle: a false alarm",
            Self::Starved => "without a processor",
            Self::Unknown => "not known",
        }
    }
}

impl SeverityLevel {
    /// One word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Micro => "micro",
            Self::Freeze => "freeze",
            Self::Severe => "severe",
            Self::Unresponsive => "unresponsive",
            Self::Unknown => "unknown",
        }
    }
}

/// How many of the folded stacks a text shows.
const STACKS: usize = 3;
/// How many frames of each.
const FRAMES: usize = 12;

/// The lines about cause and severity.
pub(super) fn write_episode(out: &mut dyn Write, record: &Record) -> Result<()> {
    if let Some(episode) = &record.episode {
        let deadlock = if record.is_deadlock() { ", in a deadlock" } else { "" };
        field(out, "Cause", format_args!("{}{deadlock}", episode.cause.name()))?;
        write_evidence(out, episode)?;
    }
    if record.repeats.count > 0 {
        let lasted = duration(record.repeats.duration_ns);
        let more = record.repeats.count;
        field(out, "Repeated", format_args!("{more} times more with the same stack, {lasted} in all"))?;
        if record.repeats.repeating_ns > 0 {
            let (how, by_now) = (record.outcome.name(), duration(record.repeats.repeating_ns));
            field(
                out,
                "Latest Repeat",
                format_args!("{how} after {by_now}; the freeze of the other figures had ended"),
            )?;
        }
    }
    if let Some(told) = &record.told {
        write_told(out, record, told)?;
    }
    Ok(())
}

fn write_evidence(out: &mut dyn Write, episode: &EpisodeInfo) -> Result<()> {
    for evidence in &episode.evidence {
        field(out, "Evidence", Clean(&evidence.text))?;
    }
    field(out, "Severity", episode.severity.name())?;
    if !episode.labels.is_empty() {
        field(out, "Labels", episode.labels.join(", "))?;
    }
    if let Some(why) = &episode.expected {
        field(out, "Expected", Clean(why))?;
    }
    Ok(())
}

fn write_told(out: &mut dyn Write, record: &Record, told: &ToldInfo) -> Result<()> {
    for (name, value) in &told.values {
        field(out, "Told", format_args!("{} = {}", Clean(name), Clean(value)))?;
    }
    for crumb in &told.breadcrumbs {
        let before = duration(record.times.detected_ns.saturating_sub(crumb.at_ns));
        let (component, text) = (Clean(&crumb.component), Clean(&crumb.text));
        field(out, "Breadcrumb", format_args!("{before} before the detection, {component}: {text}"))?;
    }
    Ok(())
}

/// The folded stacks, the heaviest first, and the order of the samples in time.
pub(super) fn write_samples(out: &mut dyn Write, record: &Record) -> Result<()> {
    let Some(samples) = record.samples.as_ref().filter(|samples| !samples.stacks.is_empty()) else {
        return Ok(());
    };
    let all = samples.weight_ns().max(1);
    let (count, time) = (samples.samples.len(), duration(samples.weight_ns()));
    let stacks = match samples.stacks.len() {
        1 => "1 stack".to_owned(),
        stacks => format!("{stacks} stacks"),
    };
    write!(out, "Samples: {count} of the watched thread, for {time}; {stacks}")?;
    match samples.moved {
        0 => writeln!(out)?,
        moved => writeln!(out, "; {moved} thrown away, since the loop had turned")?,
    }
    writeln!(out, "In time: {}", time_line(samples))?;
    for (number, stack) in samples.stacks.iter().enumerate().take(STACKS) {
        let percent = stack.weight_ns as f64 * 100.0 / all as f64;
        let letter = letter(number);
        writeln!(out, "{letter}: {percent:.0} % ({}), {} samples", duration(stack.weight_ns), stack.count)?;
        write_stack(out, record, stack)?;
    }
    Ok(())
}

fn write_stack(out: &mut dyn Write, record: &Record, stack: &StackInfo) -> Result<()> {
    for frame in stack.frames.iter().take(FRAMES) {
        let image = record.image(frame).map_or("???", crate::read::Image::name);
        match &frame.symbol {
            Some(symbol) => writeln!(out, "     {} ({})", Clean(&symbol.name), Clean(image))?,
            None => writeln!(out, "     {:#x} ({})", frame.address, Clean(image))?,
        }
    }
    match stack.frames.len().saturating_sub(FRAMES) {
        0 => Ok(()),
        more => writeln!(out, "     … {more} more"),
    }
}

/// One letter a sample: A is the heaviest stack.
fn time_line(samples: &SamplesInfo) -> String {
    samples.samples.iter().map(|sample| sample.stack.map_or('-', letter)).collect()
}

/// Beyond the alphabet all are alike.
fn letter(number: usize) -> char {
    u8::try_from(number).ok().filter(|number| *number < 26).map_or('*', |number| char::from(b'A' + number))
}
