//! Tells of freezes as they happen, on the standard error.

use crate::output::complain;
use freezeframe_monitor::{Freeze, Phase, Severity};
use freezeframe_report::read::{Image, Record, Report};
use freezeframe_report::show::{Clean, Symbols, duration};
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

/// How many frames are shown.
const FRAMES: usize = 16;

/// Prints what it hears.
pub(super) struct News {
    file: PathBuf,
    symbols: Symbols,
}

impl News {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file, symbols: Symbols::new() }
    }

    pub(super) fn tell(&mut self, freeze: &Freeze<'_>) {
        let lasted = duration(freeze.duration.as_nanos() as u64);
        match (freeze.phase, &freeze.record) {
            (Phase::Detected, Ok(Some(number))) => {
                let like = if freeze.counted { ", like others before: counted in" } else { ";" };
                let record = self.record(*number);
                let cause = record.as_ref().and_then(|record| Some(record.episode.as_ref()?.cause.name()));
                let cause = cause.map_or_else(String::new, |cause| format!(" ({cause})"));
                complain(&format!("FROZEN for {lasted}{cause}{like} record {number}"));
                if let Some(record) = record.filter(|_| !freeze.counted) {
                    let _ = std::io::stderr().write_all(stack(&record).as_bytes());
                }
            }
            (Phase::Detected, Ok(None)) => {
                complain(&format!("FROZEN for {lasted}; the day has seen its records"))
            }
            (Phase::Detected, Err(error)) => {
                complain(&format!("FROZEN for {lasted}, but no record: {error}"))
            }
            (Phase::Worsened, _) if freeze.severity >= Severity::Severe => {
                complain(&format!("still frozen after {lasted}"));
            }
            (Phase::Recovered, _) => complain(&format!("recovered after {lasted}")),
            (Phase::Lost, _) => complain(&format!("ended in the middle of it, after {lasted}")),
            _ => {}
        }
    }

    fn record(&mut self, number: u64) -> Option<Record> {
        let mut report = Report::open(&self.file).ok()?;
        let at = report.records.iter().position(|record| record.sequence == number)?;
        let mut record = report.records.swap_remove(at);
        self.symbols.name_frames(&mut record);
        Some(record)
    }
}

/// The watched thread's innermost frames, one a line.
fn stack(record: &Record) -> String {
    let mut text = String::new();
    let frames = record.watched().map_or(&[][..], |thread| &thread.frames);
    for (number, frame) in frames.iter().enumerate().take(FRAMES) {
        let image = record.image(frame);
        let place = match (&frame.symbol, image) {
            (Some(symbol), _) => format!("{} + {}", symbol.name, symbol.offset),
            (None, Some(image)) => format!("{:#x}", frame.address.wrapping_sub(image.load_address)),
            (None, None) => format!("{:#x}", frame.address),
        };
        let image = image.map_or_else(String::new, |image| of_image(image, frame.symbol.is_some()));
        let _ = writeln!(text, "    {number:>2}  {}  {}", Clean(&place), Clean(&image));
    }
    if frames.len() > FRAMES {
        let _ = writeln!(text, "        … {} more", frames.len() - FRAMES);
    }
    text
}

/// A file's name. Without the function's, the build id tells where that is to be found.
fn of_image(image: &Image, named: bool) -> String {
    let name = image.path.rsplit('/').next().unwrap_or("");
    if named || image.build_id.is_empty() {
        name.to_owned()
    } else {
        format!("{name} (build id {})", image.build_id)
    }
}
