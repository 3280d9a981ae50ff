//! `freezeframe run`.

use super::news::News;
use super::preload;
use super::report::File;
use super::signals::{self, Signals, end_by};
use super::start::{Environment, Mask, start};
use super::subject;
use crate::arguments::{RunArguments, WatchArguments};
use crate::output::{Failure, Outcome, complain};
use freezeframe_monitor::{Builder, Monitor, SharedBoard};
use freezeframe_report::file::Size;
use freezeframe_unwind::process::ProcessId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;

/// As shells have them.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

pub(crate) fn run(arguments: &RunArguments) -> Outcome {
    let mask = Mask::current();
    let file = File::make(arguments.watch.report.as_ref())?;
    let signals = Signals::of_the_program().map_err(Failure::new)?;
    let (board, environment) = told_by_library(arguments);
    let mut child = match start(&arguments.program, mask, environment) {
        Ok(child) => child,
        Err(error) => {
            file.finish(0, true);
            return Ok(not_started(&arguments.program, &error));
        }
    };
    let process = ProcessId::Child(child.id() as i32);
    let monitor = builder(&arguments.watch, &file).watch_process(process, board);
    let monitor = monitor.map_err(|error| {
        // A program that has ended at once was no freeze.
        if subject::is_there(process) {
            complain(&format!("the program is not watched: {}", subject::why_not(process, &error)));
        }
    });
    wait_for_end(process, &signals)?;
    let freezes = monitor.map_or(0, finish);
    file.finish(freezes, arguments.watch.quiet);
    let status = child.wait().map_err(Failure::new)?;
    if let Some(signal) = status.signal() {
        end_by(signal);
        return Ok(ExitCode::from(128u8.wrapping_add(signal as u8)));
    }
    Ok(ExitCode::from(status.code().unwrap_or(1) as u8))
}

/// The memory on which the program tells of GLib's main loop, and the environment that has it do so; none where that cannot be:
/// then it is only looked at.
fn told_by_library(arguments: &RunArguments) -> (Option<SharedBoard>, Option<Environment>) {
    if !arguments.program.first().is_some_and(|program| preload::can_be_loaded_into(program)) {
        return (None, None);
    }
    let library = match preload::find() {
        Ok(library) => library,
        Err(reason) => {
            if !arguments.watch.quiet {
                complain(&format!("a main loop of GLib's is watched by looking only: {reason}"));
            }
            return (None, None);
        }
    };
    let board = SharedBoard::new().ok();
    let path = board.as_ref().and_then(SharedBoard::path);
    let environment = path.and_then(|path| Environment::loading(&library, &path));
    (board, environment)
}

/// A monitor that is set up as the arguments say.
pub(super) fn builder(arguments: &WatchArguments, file: &File) -> Builder {
    let mut builder = Monitor::builder("main")
        .interval(arguments.threshold / MISSES)
        .misses(MISSES)
        .report_file(&file.path, Size::default());
    if !arguments.quiet {
        let mut news = News::new(file.path.clone());
        builder = builder.on_freeze(move |freeze| news.tell(freeze));
    }
    builder
}

/// As many timeouts in a row make a freeze.
const MISSES: u32 = 5;

/// Stops a monitor whose process has ended, or is left alone. How many freezes there were.
pub(super) fn finish(monitor: Monitor) -> u64 {
    let statistics = monitor.statistics();
    monitor.stop();
    statistics.freezes.saturating_sub(statistics.false_alarms)
}

fn not_started(program: &[OsString], error: &std::io::Error) -> ExitCode {
    let name = program.first().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    match error.kind() {
        ErrorKind::NotFound => {
            complain(&format!("there is no program {name}"));
            ExitCode::from(NOT_FOUND)
        }
        _ => {
            complain(&format!("{name} cannot be run: {error}"));
            ExitCode::from(NOT_EXECUTABLE)
        }
    }
}

/// How often a system is asked whether a process has ended that does not tell.
const UNTOLD: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Waits until the program has ended, without taking its end away: the watcher waits for the program, too, in its way. Signals that
/// were sent to this command are passed on; those of the terminal go to the program anyway.
fn wait_for_end(process: ProcessId, signals: &Signals) -> Result<(), Failure> {
    let pid = process.number().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Failure::Message("a process without an id".into()))?;
    // Before Linux 5.3 there is none.
    let ends = pidfd_open(pid, PidfdFlags::empty()).ok();
    loop {
        let come = wait_for(ends.as_ref(), signals)?;
        let ended = come || ends.is_none() && !subject::is_there(process);
        while let Some(signal) = signals.next() {
            if signal.sent && !ended {
                signals::send(pid, signal);
            }
        }
        if ended {
            return Ok(());
        }
    }
}

/// Waits until a process has ended or a signal has come, and says whether it was the former.
pub(super) fn wait_for(ends: Option<&OwnedFd>, signals: &Signals) -> Result<bool, Failure> {
    let signals = PollFd::new(signals, PollFlags::IN);
    let polled = match ends {
        Some(ends) => {
            let mut both = [PollFd::new(ends, PollFlags::IN), signals];
            poll(&mut both, None).map(|_| !both[0].revents().is_empty())
        }
        None => poll(&mut [signals], Some(&UNTOLD)).map(|_| false),
    };
    match polled {
        Ok(ended) => Ok(ended),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(Failure::new(error)),
    }
}
