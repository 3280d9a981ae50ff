//! `freezeframe run`.

use super::news::News;
use super::preload;
use super::report::File;
use super::signals::{Signals, end_by};
use super::start::{Environment, Mask, start};
use super::subject;
use crate::arguments::{RunArguments, WatchArguments};
use crate::output::{Failure, Outcome, complain};
use freezeframe_monitor::{Builder, Monitor, SharedBoard};
use freezeframe_report::file::Size;
use freezeframe_unwind::process::ProcessId;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, kill_process, pidfd_open};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitCode};

/// As shells have them.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

pub(crate) fn run(arguments: &RunArguments) -> Outcome {
    let mask = Mask::current();
    let file = File::make(arguments.watch.report.as_ref())?;
    let signals = Signals::new().map_err(Failure::new)?;
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
    let status = wait_for_end(&mut child, &signals)?;
    let freezes = monitor.map_or(0, finish);
    file.finish(freezes, arguments.watch.quiet);
    let status = status.or_else(|| child.wait().ok());
    let Some(status) = status else {
        return Err(Failure::Message("how the program has ended is not known".into()));
    };
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

/// Waits until the program has ended, without taking its end away: the watcher waits for the program, too, in its way. Signals that
/// were sent to this command are passed on; those of the terminal go to the program anyway.
fn wait_for_end(child: &mut Child, signals: &Signals) -> Result<Option<std::process::ExitStatus>, Failure> {
    let pid =
        Pid::from_raw(child.id() as i32).ok_or_else(|| Failure::Message("a process without an id".into()))?;
    let Ok(ends) = pidfd_open(pid, PidfdFlags::empty()) else {
        // Before Linux 5.3.
        return child.wait().map(Some).map_err(Failure::new);
    };
    loop {
        let mut both = [PollFd::new(&ends, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        match poll(&mut both, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Failure::new(error)),
        }
        let ended = !both[0].revents().is_empty();
        while let Some(signal) = signals.next() {
            if signal.sent
                && !ended
                && let Some(number) = rustix::process::Signal::from_named_raw(signal.number)
            {
                let _ = kill_process(pid, number);
            }
        }
        if ended {
            return Ok(None);
        }
    }
}
