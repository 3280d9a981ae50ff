//! What the race checks share. Each crate's own code is compiled with loom's atomics in the place of the processor's, and loom
//! runs a scenario once for each order in which its threads' steps can follow each other, and for each value that a load
//! may see by the rules of C11, stale ones included.

pub mod atomic;
pub mod futex;

pub use loom;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs a scenario in every way; with a bound, in every way in which no more than so many threads lose the processor where they
/// could have gone on. Prints how many executions there were.
pub fn explore(name: &str, preemptions: Option<usize>, scenario: impl Fn() + Sync + Send + 'static) {
    let executions = Arc::new(AtomicUsize::new(0));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 10_000;
    let counted = executions.clone();
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        scenario();
    });
    let bound = preemptions.map_or_else(|| "all".to_owned(), |bound| format!("at most {bound} preemptions"));
    println!("explored: {name} | {} executions | {bound}", executions.load(Ordering::Relaxed));
}
