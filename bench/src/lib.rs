//! What freezeframe costs, beside what others do for the same purpose, measured in one run on one machine.
//!
//! A benchmark is one file with a `run` that returns its tables, and one line in `BENCHMARKS`.
//!
//! Exit codes: 0 all was measured, whether or not a target was met; 1 an error; 2 wrong usage.
//!
//! The peers and the ways to read a stack that it compares with are Linux's; on other systems there is nothing in here.
#![cfg(target_os = "linux")]

mod allocations;
mod arguments;
mod beacon;
mod ladder;
mod machine;
mod measure;
mod monitor;
mod posted;
mod suspend;
mod table;
mod unwind;
mod walk;

use arguments::Arguments;
use machine::Machine;
use std::error::Error;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use table::Table;

/// A benchmark: its name on the command line, what it measures, and how.
struct Benchmark {
    name: &'static str,
    about: &'static str,
    run: fn() -> Result<Vec<Table>, Box<dyn Error>>,
}

const BENCHMARKS: &[Benchmark] = &[
    Benchmark { name: "beacon", about: "a transition's cost on the watched thread", run: beacon::run },
    Benchmark { name: "monitor", about: "what a monitor costs while it watches", run: monitor::run },
    Benchmark {
        name: "suspend",
        about: "how long threads stand still while they are captured",
        run: suspend::run,
    },
    Benchmark {
        name: "unwind",
        about: "a walk of the same by unwind tables, rules cached and not",
        run: unwind::run,
    },
    Benchmark { name: "walk", about: "a walk of 64 functions' frames", run: walk::run },
];

/// Runs the benchmarks that the command line asks for.
pub fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "freezeframe-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let machine = Machine::read();
    let mut out = std::io::stdout();
    if !arguments.json {
        writeln!(out, "{machine}")?;
    }
    let mut tables = Vec::new();
    for benchmark in BENCHMARKS.iter().filter(|benchmark| arguments.wants(benchmark.name)) {
        for table in (benchmark.run)().map_err(|error| format!("{}: {error}", benchmark.name))? {
            match arguments.json {
                true => tables.push(serde_json::json!({ "benchmark": benchmark.name, "table": table })),
                false => writeln!(out, "\n{}: {table}", benchmark.name)?,
            }
        }
    }
    if arguments.json {
        let all = serde_json::json!({ "machine": machine, "benchmarks": tables });
        writeln!(out, "{all:#}")?;
    }
    Ok(())
}

/// Whoever read our output has seen enough.
fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
