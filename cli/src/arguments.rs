//! The command line.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Sees a frozen run loop while it is frozen, and says what it was doing.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Exit codes: 0 all is well, 1 an error, 2 wrong usage, 3 a torn record was met. Of `run`: the program's; 126 it \
                  cannot be run, 127 there is none."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Freezes a run loop on purpose, and shows the report
    Demo(DemoArguments),
    /// Lists the records of a report file, one a line
    List(ListArguments),
    /// Shows a record of a report file
    Show(ShowArguments),
    /// Runs a program and watches its main thread from outside (Linux)
    Run(RunArguments),
    /// Watches the main thread of a process that runs (Linux)
    Attach(AttachArguments),
}

/// The demo is a run loop that scrolls a table. Every tenth row blocks for 500 ms.
#[derive(Clone, Debug, Args)]
pub(crate) struct DemoArguments {
    /// How the loop is watched
    #[arg(long, value_enum, default_value_t = Strategy::RunLoop)]
    pub(crate) strategy: Strategy,
    /// What blocks
    #[arg(long, value_enum, default_value_t = Cause::Compute)]
    pub(crate) cause: Cause,
    /// Crashes in this way where the first row would block, and shows the report of that
    #[arg(long, value_enum, value_name = "WAY")]
    pub(crate) crash: Option<Crash>,
    /// Crashes in this process, not in another one
    #[arg(long, hide = true)]
    pub(crate) here: bool,
    /// The report file: made if there is none, added to if there is [default: a new one in the temporary folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// How many rows to scroll through
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rows: u32,
    /// No colour, even on a terminal
    #[arg(long)]
    pub(crate) no_color: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Strategy {
    /// By its activities
    RunLoop,
    /// By pings
    Ping,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cause {
    /// Computing
    Compute,
    /// Sleeping
    Sleep,
    /// Waiting for a lock that another thread holds
    Lock,
    /// Waiting for a lock of a thread that waits for one of ours
    Deadlock,
    /// Reading from a pipe that stays empty
    Io,
    /// Turning all the time, each turn short, without ever waiting for events
    Livelock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Crash {
    /// Writing to the address zero
    Null,
    /// Calling itself until there is no stack left
    Overflow,
    /// Aborting
    Abort,
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// The report file
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// The report file
    pub(crate) file: PathBuf,
    /// Which record, by its number in the list [default: the latest]
    #[arg(long, value_name = "N")]
    pub(crate) record: Option<u64>,
    /// As JSON, with every field
    #[arg(long)]
    pub(crate) json: bool,
    /// As a crash report of Apple's, which servers read
    #[arg(long, conflicts_with_all = ["json", "all_registers"])]
    pub(crate) apple: bool,
    /// The registers of every thread, not only of the one that was watched
    #[arg(long)]
    pub(crate) all_registers: bool,
    /// No colour, even on a terminal
    #[arg(long)]
    pub(crate) no_color: bool,
}

/// What watching a program from outside needs.
#[derive(Debug, Args)]
pub(crate) struct WatchArguments {
    /// The report file: made if there is none, added to if there is [default: a new one in the temporary folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// From which time on without progress it is a freeze: milliseconds, or with a unit (`ms`, `s`)
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = threshold)]
    pub(crate) threshold: Duration,
    /// Prints nothing of its own
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// The program is started as it would be by itself: its exit code is the command's, and a signal that ends it ends the command.
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) watch: WatchArguments,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

/// Until the process ends, or Ctrl-C, which leaves it as it was.
#[derive(Debug, Args)]
pub(crate) struct AttachArguments {
    #[command(flatten)]
    pub(crate) watch: WatchArguments,
    /// The process's id
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: i32,
}

fn threshold(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => text.strip_suffix('s').map_or((text, 1e-3), |number| (number, 1.0)),
    };
    let seconds = number.trim().parse::<f64>().map_err(|error| error.to_string())? * unit;
    let time = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    let range = Duration::from_millis(50)..=Duration::from_secs(3600);
    if range.contains(&time) { Ok(time) } else { Err("it is from 50 ms to an hour".into()) }
}
