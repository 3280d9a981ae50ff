//! `freezeframe attach`.

use super::report::File;
use super::run::{builder, finish, wait_for};
use super::signals::Signals;
use super::subject;
use crate::arguments::AttachArguments;
use crate::output::{Failure, Outcome, complain};
use freezeframe_unwind::process::ProcessId;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::process::ExitCode;

pub(crate) fn attach(arguments: &AttachArguments) -> Outcome {
    let process = ProcessId::Other(arguments.pid);
    subject::check(arguments.pid)?;
    let pid =
        Pid::from_raw(arguments.pid).ok_or_else(|| Failure::Message("no process has that id".into()))?;
    let ends = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| {
        Failure::Message(format!("process {} cannot be waited for: {error}", arguments.pid))
    })?;
    let file = File::make(arguments.watch.report.as_ref())?;
    let signals = Signals::that_end().map_err(Failure::new)?;
    let monitor = builder(&arguments.watch, &file).watch_process(process, None).map_err(|error| {
        file.finish(0, true);
        Failure::Message(format!(
            "process {} cannot be watched: {}",
            arguments.pid,
            subject::why_not(process, &error)
        ))
    })?;
    if !arguments.watch.quiet {
        complain(&format!("watching {} [{}]; Ctrl-C ends that", subject::name(arguments.pid), arguments.pid));
    }
    while !wait_for(Some(&ends), &signals)? && signals.next().is_none() {}
    file.finish(finish(monitor), arguments.watch.quiet);
    Ok(ExitCode::SUCCESS)
}
