//! The `freezeframe` command.
//!
//! Exit codes: 0 all is well, 1 an error, 2 wrong usage, 3 a torn record was met; of `run`, the program's.
#![deny(unsafe_code)]

mod arguments;
mod demo;
mod list;
mod output;
mod outside;
mod show;

use arguments::{Arguments, Command};
use clap::Parser;
use output::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::List(arguments) => list::run(&arguments),
        Command::Show(arguments) => show::run(&arguments),
        Command::Run(arguments) => outside::run(&arguments),
        Command::Attach(arguments) => outside::attach(&arguments),
    };
    match result {
        Ok(code) => code,
        // Whoever read our output has seen enough.
        Err(Failure::BrokenPipe) => ExitCode::SUCCESS,
        Err(Failure::Message(message)) => {
            output::complain(&message);
            ExitCode::FAILURE
        }
    }
}
