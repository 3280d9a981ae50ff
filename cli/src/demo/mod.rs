//! `freezeframe demo`: a run loop that scrolls a table, of which every tenth row blocks.

mod cause;
mod crash;
// What Rust has no safe name for.
#[expect(unsafe_code)]
mod mutex;
mod run_loop;
mod table;

use crate::arguments::{Cause, DemoArguments, Strategy};
use crate::list::write_list;
use crate::output::{Failure, Outcome, color, complain};
use clap::ValueEnum;
use freezeframe_monitor::{Activity, Freeze, Kind, Monitor, Phase, Severity};
use freezeframe_report::file::Size;
use freezeframe_report::read::Report;
use freezeframe_report::show::{Symbols, TextOptions, duration, write_text};
use freezeframe_unwind::threads;
use run_loop::RunLoop;
use std::cell::{Cell, RefCell};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};
use table::{Slow, Table};

/// A frame at 60 Hz.
const TURN: Duration = Duration::from_millis(16);

/// How long a loop may go without a wait, where that is to be seen.
const NEVER_IDLE: Duration = Duration::from_millis(300);

pub(crate) fn run(arguments: &DemoArguments) -> Outcome {
    if arguments.cause == Cause::Livelock && arguments.strategy == Strategy::Ping {
        return Err(Failure::Message("a livelock answers pings: it is seen by its activities only".into()));
    }
    let file = arguments.report.clone().unwrap_or_else(new_file);
    match arguments.crash {
        Some(crash) if !arguments.here => return crash::watch_it_crash(arguments, crash, &file),
        Some(_) => crash::report_crashes_to(&file)?,
        None => {}
    }
    let mut run_loop = RunLoop::new();
    let monitor = watch(&mut run_loop, arguments, &file)?;
    let slow = match arguments.crash {
        Some(crash) => format!("the tenth crashes (way: {})", name(crash)),
        None => {
            let time = duration(cause::BLOCKED_FOR.as_nanos() as u64);
            match arguments.cause {
                Cause::Livelock => format!("every tenth keeps it busy for {time} (cause: livelock)"),
                cause => format!("every tenth blocks for {time} (cause: {})", name(cause)),
            }
        }
    };
    writeln!(
        std::io::stdout(),
        "A run loop scrolls a table of {} rows; {slow}.\n\
         It is watched by {}, for five timeouts of 50 ms in a row.\n",
        arguments.rows,
        match arguments.strategy {
            Strategy::RunLoop => "its activities",
            Strategy::Ping => "pings",
        },
    )?;

    let slow = arguments.crash.map_or(Slow::Blocks(arguments.cause), Slow::Crashes);
    let table = Rc::new(RefCell::new(Table::new(slow)));
    let provoked = Rc::new(Cell::new(0));
    schedule_row(&run_loop, table, arguments, arguments.rows, provoked.clone());
    run_loop.run();

    let statistics = monitor.statistics();
    monitor.stop();
    show_report(arguments, &file, std::process::id())?;
    let seen = if arguments.cause == Cause::Livelock { statistics.never_idle } else { statistics.freezes };
    let (freezes, expected) = (seen, provoked.get());
    writeln!(
        std::io::stdout(),
        "\n{expected} freezes provoked, {freezes} detected. The report: {}",
        file.display()
    )?;
    if freezes != expected {
        return Err(Failure::Message(format!(
            "{expected} freezes were provoked, but {freezes} were detected"
        )));
    }
    Ok(ExitCode::SUCCESS)
}

fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn new_file() -> PathBuf {
    std::env::temp_dir().join(format!("freezeframe-demo-{}.ffr", std::process::id()))
}

/// Starts the monitor in the way that was asked for.
fn watch(run_loop: &mut RunLoop, arguments: &DemoArguments, file: &Path) -> Result<Monitor, Failure> {
    let mut builder = Monitor::builder("table")
        .app("dev.freezeframe.demo", env!("CARGO_PKG_VERSION"))
        .report_file(file, Size::default())
        .on_freeze(print_freeze);
    if arguments.cause == Cause::Livelock {
        builder = builder.never_idle(NEVER_IDLE);
    }
    match arguments.strategy {
        Strategy::RunLoop => {
            let (monitor, beacon) = builder.watch_run_loop().map_err(Failure::new)?;
            run_loop.observe(move |activity: Activity| beacon.transition(activity));
            Ok(monitor)
        }
        Strategy::Ping => builder.watch_by_ping(run_loop.handle(), threads::current()).map_err(Failure::new),
    }
}

/// Called by the watcher, while the loop is frozen or right after.
fn print_freeze(freeze: &Freeze<'_>) {
    let lasted = duration(freeze.duration.as_nanos() as u64);
    let line = match (freeze.phase, &freeze.record) {
        (Phase::Detected, Ok(record)) if freeze.kind == Kind::NeverIdle => {
            let number = record.map_or_else(String::new, |number| format!("; record {number}"));
            format!("        NEVER IDLE for {lasted}{number}")
        }
        (Phase::Detected, Ok(record)) => {
            let delay = duration(freeze.detection_delay.as_nanos() as u64);
            let counted = if freeze.counted { "counted in record" } else { "record" };
            let number = record.map_or_else(String::new, |number| format!("; {counted} {number}"));
            format!("        FROZEN for {lasted}, noticed {delay} after the threshold{number}")
        }
        (Phase::Detected, Err(error)) => format!("        FROZEN for {lasted}, but no record: {error}"),
        (Phase::Worsened, _) if freeze.severity < Severity::Severe => return,
        (Phase::Worsened, _) => format!("        still going on after {lasted}"),
        (Phase::Recovered, _) => format!("        recovered after {lasted}"),
        (Phase::Lost, _) => format!("        not watched any more after {lasted}"),
        _ => return,
    };
    // The loop goes on whether or not anybody reads this.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Scrolls one row further, and comes back for the next one.
fn schedule_row(
    run_loop: &RunLoop,
    table: Rc<RefCell<Table>>,
    arguments: &DemoArguments,
    rows_left: u32,
    provoked: Rc<Cell<u64>>,
) {
    let (arguments, cause) = (arguments.clone(), arguments.cause);
    run_loop.after(TURN, move |run_loop| {
        let begun = Instant::now();
        let row = table.borrow_mut().scroll();
        if row.blocked {
            provoked.set(provoked.get() + 1);
        }
        let took = duration(begun.elapsed().as_nanos() as u64);
        if writeln!(std::io::stdout(), "row {:<4}{} turned in {took}", row.number, row.text).is_err() {
            return run_loop.stop();
        }
        let next = move |run_loop: &RunLoop| {
            if rows_left > 1 {
                schedule_row(run_loop, table, &arguments, rows_left - 1, provoked);
            } else {
                // Another turn, in which what was posted meanwhile is done.
                run_loop.after(TURN, RunLoop::stop);
            }
        };
        if row.blocked && cause == Cause::Livelock {
            cause::keep_busy(run_loop, Instant::now() + cause::BLOCKED_FOR, next);
        } else {
            next(run_loop);
        }
    });
}

/// Reads the file back, as any other program would.
fn show_report(arguments: &DemoArguments, file: &Path, pid: u32) -> Result<(), Failure> {
    let mut report = Report::open(file).map_err(Failure::new)?;
    // The file may hold another run's.
    report.records.retain(|record| record.process.as_ref().is_some_and(|process| process.pid == pid));
    let mut symbols = Symbols::new();
    report.records.iter_mut().for_each(|record| symbols.name_frames(record));
    let mut out = std::io::stdout().lock();
    writeln!(out)?;
    write_list(&mut out, &report)?;
    if report.dropped != Some(0) {
        complain("the report file is full of unread records: delete it, or give another --report FILE");
    }
    if let Some(record) = report.records.last() {
        writeln!(out)?;
        write_text(
            &mut out,
            record,
            TextOptions { color: color(arguments.no_color), ..TextOptions::default() },
        )?;
    }
    Ok(out.flush()?)
}
