//! One line a record.

use super::clean::Clean;
use super::crash::describe;
use crate::read::{Record, RecordKind, RecordOutcome, RecordStrategy};

/// A duration with the unit that suits it, to three digits: `12.3 µs`, `502 ms`, `1.20 s`.
pub fn duration(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

impl RecordOutcome {
    /// One word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ongoing => "ongoing",
            Self::Recovered => "recovered",
            Self::Killed => "killed",
            Self::Unknown => "unknown",
        }
    }
}

impl RecordStrategy {
    /// One word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RunLoop => "run-loop",
            Self::Ping => "ping",
            Self::Signal => "signal",
            Self::CpuTime => "cpu-time",
            Self::Peek => "peek",
            Self::Unknown => "unknown",
        }
    }
}

/// Of a crash `3  2026-11-30T17:00:00Z  crashed  SIGSEGV, SEGV_MAPERR at 0x0  program [pid]  …`, of a freeze
/// `1  2026-11-30T17:00:00Z  recovered  502 ms  main (run-loop)  program [pid]  the innermost frame of the program's own`.
pub fn list_line(record: &Record) -> String {
    let (name, pid) =
        record.process.as_ref().map_or(("?", 0), |process| (process.name.as_str(), process.pid));
    let wall = record.times.wall.get(..19).unwrap_or(&record.times.wall);
    let culprit = culprit(record).map_or_else(String::new, |name| format!("  in {}", Clean(name)));
    let torn = if record.complete { "" } else { "  INCOMPLETE" };
    let what = match (&record.crash, record.kind) {
        (Some(crash), _) => describe(crash),
        (None, RecordKind::Crash) => "a signal that is not known".into(),
        _ => {
            let lasted = duration(record.duration_ns);
            let cause = match (record.kind, &record.episode) {
                (RecordKind::NeverIdle, _) => ", never idle".into(),
                (RecordKind::CpuHigh, _) => ", CPU high".into(),
                _ if record.is_deadlock() => ", deadlock".into(),
                (_, Some(episode)) => format!(", {}", episode.cause.name()),
                _ => String::new(),
            };
            let repeated = match record.repeats.count {
                0 => String::new(),
                more if record.repeats.repeating_ns > 0 => {
                    let by_now = duration(record.repeats.repeating_ns);
                    format!("  +{more} like it, {} in the latest after {by_now}", record.outcome.name())
                }
                more => format!("  +{more} like it"),
            };
            let (component, strategy) = (Clean(&record.component), record.strategy.name());
            format!("{lasted:>8}  {component} ({strategy}{cause}){repeated}")
        }
    };
    // Whether it ended the process is not known: an earlier handler may have borne it.
    let ended = if record.kind == RecordKind::Crash { "crashed" } else { record.outcome.name() };
    format!("{:>4}  {wall}  {ended:<9}  {what}  {} [{pid}]{culprit}{torn}", record.sequence, Clean(name))
}

/// The innermost function of the watched thread that lies in the program itself and belongs to no runtime.
fn culprit(record: &Record) -> Option<&str> {
    let path = record.process.as_ref().map(|process| process.path.as_str())?;
    let own = |frame: &&crate::read::Frame| record.image(frame).is_some_and(|image| image.path == path);
    let names = record.watched()?.frames.iter().filter(own).filter_map(|frame| frame.symbol.as_ref());
    let mut names = names.map(|symbol| symbol.name.as_str());
    names.find(|name| !is_runtime(name))
}

/// Whether a function belongs to Rust's own libraries. Names of methods may begin with `<` and the type.
fn is_runtime(name: &str) -> bool {
    let name = name.trim_start_matches(['<', '&', '*']).trim_start_matches("dyn ");
    ["std::", "core::", "alloc::", "fn("].iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtimes_functions_are_told_from_the_programs() {
        let runtime =
            ["std::thread::sleep", "<core::fmt::Formatter>::pad", "<&dyn core::ops::Fn() as F>::call"];
        assert!(runtime.into_iter().all(is_runtime));
        let own = [
            "app::run",
            "<app::Table>::draw",
            "main",
            "<app::run::{closure#0} as core::ops::FnOnce>::call_once",
        ];
        assert!(!own.into_iter().any(is_runtime));
    }

    #[test]
    fn durations_keep_three_digits() {
        let all = [999, 1_000, 12_345, 999_499, 250_000_000, 1_204_000_000, 125_000_000_000].map(duration);
        assert_eq!(all, ["999 ns", "1.00 µs", "12.3 µs", "999 µs", "250 ms", "1.20 s", "125 s"]);
    }
}
