//! `freezeframe show`.

use crate::arguments::ShowArguments;
use crate::list::finish;
use crate::output::{Failure, Outcome, TORN, color, complain};
use freezeframe_report::read::{Record, Report};
use freezeframe_report::show::{RegistersOf, Symbols, TextOptions, to_json, write_apple, write_text};
use std::io::Write;
use std::process::ExitCode;

pub(crate) fn run(arguments: &ShowArguments) -> Outcome {
    let mut report = Report::open(&arguments.file).map_err(Failure::new)?;
    let file = arguments.file.display();
    let Some(at) = choose(&report, arguments.record) else {
        if !report.torn.is_empty() {
            return Ok(finish(&report));
        }
        let what = match (arguments.record, report.records.first(), report.records.last()) {
            (Some(n), Some(a), Some(z)) => {
                format!("no record {n}: it holds {} to {}", a.sequence, z.sequence)
            }
            _ => "no records".into(),
        };
        return Err(Failure::Message(format!("{file} has {what}")));
    };
    let count = report.records.len();
    let record = &mut report.records[at];
    if arguments.record.is_none() && count > 1 {
        complain(&format!(
            "showing record {}, the latest of {count}; --record N shows another",
            record.sequence
        ));
    }
    Symbols::new().name_frames(record);
    let mut out = std::io::stdout().lock();
    write_record(&mut out, record, arguments)?;
    out.flush()?;
    let complete = record.complete;
    // A torn record may have been the latest.
    let latest = arguments.record.is_some() || report.torn.is_empty();
    if !latest {
        finish(&report);
    }
    Ok(if complete && latest { ExitCode::SUCCESS } else { ExitCode::from(TORN) })
}

/// The record of that number, or the latest.
fn choose(report: &Report, wanted: Option<u64>) -> Option<usize> {
    match wanted {
        Some(wanted) => report.records.iter().position(|record| record.sequence == wanted),
        None => report.records.len().checked_sub(1),
    }
}

fn write_record(out: &mut dyn Write, record: &Record, arguments: &ShowArguments) -> Result<(), Failure> {
    if arguments.json {
        let json = to_json(record).map_err(Failure::new)?;
        return Ok(writeln!(out, "{json}")?);
    }
    if arguments.apple {
        return Ok(write_apple(out, record)?);
    }
    let registers = if arguments.all_registers { RegistersOf::All } else { RegistersOf::Watched };
    let options = TextOptions { registers, color: color(arguments.no_color) };
    Ok(write_text(out, record, options)?)
}
