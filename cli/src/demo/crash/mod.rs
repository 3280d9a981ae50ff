//! `freezeframe demo --crash`: the table's first slow row crashes, in a process of its own, and this one shows what is left.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(target_vendor = "apple")]
mod mach;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use linux::report_crashes_to;
#[cfg(target_vendor = "apple")]
pub(super) use mach::report_crashes_to;

use crate::arguments::{Crash, DemoArguments};
use crate::output::{Failure, Outcome};
use std::hint::black_box;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Runs the demo in a process that crashes, and shows the report.
pub(super) fn watch_it_crash(arguments: &DemoArguments, crash: Crash, file: &Path) -> Outcome {
    let this = std::env::current_exe().map_err(Failure::new)?;
    let mut child = Command::new(this);
    child.args([
        "demo",
        "--here",
        "--crash",
        &super::name(crash),
        "--strategy",
        &super::name(arguments.strategy),
    ]);
    let mut child = child.arg("--report").arg(file).spawn().map_err(Failure::new)?;
    let status = child.wait().map_err(Failure::new)?;
    let Some(signal) = status.signal() else {
        return Err(Failure::Message(format!("the demo was to crash, but it has ended with {status}")));
    };
    writeln!(std::io::stdout(), "\nThe process was ended by signal {signal}; this is another one.")?;
    super::show_report(arguments, file, child.id())?;
    writeln!(std::io::stdout(), "\nThe report: {}", file.display())?;
    Ok(ExitCode::SUCCESS)
}

/// Does not return.
#[inline(never)]
pub(super) fn crash(way: Crash) {
    match way {
        Crash::Null => write_to_null(),
        Crash::Overflow => drop(black_box(recurse_endlessly)(0)),
        Crash::Abort => std::process::abort(),
    }
    black_box(());
}

#[inline(never)]
#[allow(unsafe_code)]
fn write_to_null() {
    // SAFETY: none: this is what the demo is about. It ends the process, and there is no safe way to do that.
    unsafe { black_box(std::ptr::null_mut::<u8>()).write_volatile(1) };
    black_box(());
}

#[inline(never)]
#[allow(unconditional_recursion)]
fn recurse_endlessly(depth: u64) -> u64 {
    black_box(recurse_endlessly(black_box(depth + 1)) + 1)
}
