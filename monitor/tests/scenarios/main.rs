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
}

const fn scenario(
    trap: &'static str,
    name: &'static str,
    expected: &'static str,
    run: fn() -> String,
) -> Scenario {
    Scenario { trap, name, expected, run }
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
        let mut got = String::new();
        for _ in 0..TRIES {
            got = (scenario.run)();
            if got == scenario.expected || got.starts_with("not tested") {
                break;
            }
        }
        let Scenario { trap, name, expected, .. } = scenario;
        let right = got == expected || got.starts_with("not tested");
        println!("{trap:<4} {name:<62} {expected:<44} {got}{}", if right { "" } else { "   WRONG" });
        run += 1;
        wrong += u32::from(!right);
    }
    println!("{run} scenarios, {wrong} wrong");
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
