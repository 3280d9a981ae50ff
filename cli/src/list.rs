//! `freezeframe list`.

use crate::arguments::ListArguments;
use crate::output::{Failure, Outcome, TORN, complain};
use freezeframe_report::read::Report;
use freezeframe_report::show::{Symbols, list_line};
use std::io::Write;
use std::process::ExitCode;

pub(crate) fn run(arguments: &ListArguments) -> Outcome {
    let mut report = Report::open(&arguments.file).map_err(Failure::new)?;
    let mut symbols = Symbols::new();
    report.records.iter_mut().for_each(|record| symbols.name_frames(record));
    write_list(&mut std::io::stdout().lock(), &report)?;
    Ok(finish(&report))
}

pub(crate) fn write_list(out: &mut dyn Write, report: &Report) -> std::io::Result<()> {
    for record in &report.records {
        writeln!(out, "{}", list_line(record))?;
    }
    if report.records.is_empty() {
        writeln!(out, "no records")?;
    }
    match report.dropped {
        Some(0) => {}
        Some(dropped) => writeln!(out, "{dropped} records found no place")?,
        None => writeln!(out, "the count of records that found no place is damaged")?,
    }
    Ok(())
}

/// Says what is damaged, and gives the exit code.
pub(crate) fn finish(report: &Report) -> ExitCode {
    for torn in &report.torn {
        complain(&format!("slot {} holds a record that cannot be read: {}", torn.slot, torn.what));
    }
    if report.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(TORN) }
}
