//! What freeze monitors get wrong, each as a scenario with its right answer: on a fake clock where that decides, on real
//! threads and processes where those do. Prints scenario, expected, got.
//!
//! `cargo test -p freezeframe-monitor --test scenarios`; a name as an argument runs those that contain it.

#[cfg(target_os = "linux")]
mod children;
mod leaks;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod real;
mod simulated;

use std::process::ExitCode;

/// A trap's number, what happens, what is right, and what comes out.
struct Scenario {
    trap: &'static str,
    name: &'static str,
    expected: &'static str,
    run: fn() -> String,
    /// Why it cannot come out right under an emulator.
    emulators: Option<&'static str>,
}

impl Scenario {
    const fn not_emulated(self, why: &'static str) -> Self {
        Self { emulators: Some(why), ..self }
    }
}

/// What emulators lack.
#[cfg(any(target_os = "linux", target_os = "macos"))]
const NO_CALLS: &str = "an emulator does not tell of system calls";

const fn scenario(
    trap: &'static str,
    name: &'static str,
    expected: &'static str,
    run: fn() -> String,
) -> Scenario {
    Scenario { trap, name, expected, run, emulators: None }
}

fn scenarios() -> Vec<Scenario> {
    let mut all = simulated::scenarios();
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    all.extend(real::scenarios());
    #[cfg(target_os = "linux")]
    all.extend(children::scenarios());
    all.sort_by_key(|scenario| scenario.trap.parse().unwrap_or(u32::MAX));
    // It has been going on since the start, and lasts the longest.
    all.push(leaks::scenario());
    all
}

/// Whether cargo was told of a program that runs others, which is an emulator here.
fn emulated() -> bool {
    let runner = |(name, _): (String, _)| name.starts_with("CARGO_TARGET_") && name.ends_with("_RUNNER");
    std::env::vars().any(runner)
}

/// On a machine so loaded that threads stand still for longer than a threshold, that is a true freeze: a scenario is tried
/// again then, and has to come out right.
const TRIES: u32 = 4;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    #[cfg(target_os = "linux")]
    if let [child, what, file] = &arguments[..]
        && child == "child"
    {
        children::run(what, file.as_ref());
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    leaks::begin();
    println!("{:<4} {:<62} {:<44} got", "trap", "scenario", "expected");
    let (mut run, mut wrong) = (0, 0);
    for scenario in scenarios() {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| scenario.name.contains(wanted.as_str())) {
            continue;
        }
        let untested = scenario.emulators.filter(|_| emulated());
        let mut got = untested.map_or_else(String::new, |why| format!("not tested: {why}"));
        for _ in 0..TRIES {
            if untested.is_some() || got == scenario.expected {
                break;
            }
            got = (scenario.run)();
        }
        let Scenario { trap, name, expected, .. } = scenario;
        let right = got == expected || untested.is_some();
        println!("{trap:<4} {name:<62} {expected:<44} {got}{}", if right { "" } else { "   WRONG" });
        run += 1;
        wrong += u32::from(!right);
    }
    println!("{run} scenarios, {wrong} wrong");
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
