//! Systems on which a process cannot be watched from outside.

use crate::arguments::{AttachArguments, RunArguments};
use crate::output::{Failure, Outcome};

const NOT_HERE: &str = "other programs can be watched on Linux only";

pub(crate) fn run(_: &RunArguments) -> Outcome {
    Err(Failure::Message(NOT_HERE.into()))
}

pub(crate) fn attach(_: &AttachArguments) -> Outcome {
    Err(Failure::Message(NOT_HERE.into()))
}
