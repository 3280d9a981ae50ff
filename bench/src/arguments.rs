//! The command line.

use crate::BENCHMARKS;
use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, Command};

/// What to measure and how to show it.
#[derive(Debug)]
pub(crate) struct Arguments {
    names: Vec<String>,
    pub(crate) json: bool,
}

impl Arguments {
    /// Wrong usage ends the program, with the names that there are.
    pub(crate) fn parse() -> Self {
        let mut matches = command().get_matches();
        let names = matches.remove_many("names").map(Iterator::collect).unwrap_or_default();
        Self { names, json: matches.get_flag("json") }
    }

    pub(crate) fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }
}

fn command() -> Command {
    let names = BENCHMARKS.iter().map(|benchmark| PossibleValue::new(benchmark.name).help(benchmark.about));
    let names = Arg::new("names")
        .value_name("NAME")
        .num_args(0..)
        .value_parser(names.collect::<Vec<_>>())
        .help("What to measure [default: everything]");
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue).help("As JSON");
    Command::new("freezeframe-bench")
        .about("What freezeframe costs, beside its peers in the same run")
        .version(env!("CARGO_PKG_VERSION"))
        .after_help("Exit codes: 0 all was measured, targets met or not, 1 an error, 2 wrong usage.")
        .args([names, json])
}
