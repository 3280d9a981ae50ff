//! What a benchmark has found, as aligned text and as JSON.

use crate::measure::Cost;
use serde::Serialize;
use std::fmt;

/// A benchmark's result.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    /// What was measured.
    pub(crate) about: String,
    /// Of what the costs are: a transition, a frame.
    pub(crate) unit: &'static str,
    pub(crate) rows: Vec<Row>,
    pub(crate) targets: Vec<Target>,
    pub(crate) notes: Vec<String>,
}

/// One way to do it.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// How many frames it saw, where that is what it does.
    pub(crate) frames: Option<usize>,
    #[serde(flatten)]
    pub(crate) cost: Cost,
    /// How many times the cost of the row that everything is compared with.
    pub(crate) ratio: f64,
}

/// What was to be reached.
#[derive(Debug, Serialize)]
pub(crate) struct Target {
    pub(crate) what: String,
    pub(crate) measured: f64,
    met: bool,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(about: impl Into<String>, unit: &'static str) -> Self {
        Self { about: about.into(), unit, rows: Vec::new(), targets: Vec::new(), notes: Vec::new() }
    }

    /// Adds a row and returns its cost in the best batch, in ns.
    pub(crate) fn row(&mut self, name: impl Into<String>, frames: Option<usize>, cost: Cost) -> f64 {
        self.rows.push(Row { name: name.into(), frames, cost, ratio: f64::NAN });
        cost.best_ns
    }

    /// Compares every row that was not compared yet with one that costs `ns`.
    pub(crate) fn compare_with(&mut self, ns: f64) {
        let rows = self.rows.iter_mut().filter(|row| row.ratio.is_nan());
        rows.for_each(|row| row.ratio = row.cost.best_ns / ns);
    }

    /// A target that is met below `limit`.
    pub(crate) fn under(&mut self, limit: f64, what: impl Into<String>, measured: f64) {
        self.targets.push(Target { what: what.into(), measured, met: measured < limit });
    }

    /// A target that is met from `limit` on.
    pub(crate) fn at_least(&mut self, limit: f64, what: impl Into<String>, measured: f64) {
        self.targets.push(Target { what: what.into(), measured, met: measured >= limit });
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.rows.iter().map(|row| &row.name);
        let wishes = self.targets.iter().map(|target| &target.what);
        let width = names.chain(wishes).map(|text| text.chars().count()).max().unwrap_or(0);
        let counted = self.rows.iter().any(|row| row.frames.is_some());
        let frames = |frames: &str| if counted { format!("{frames:>8}") } else { String::new() };

        writeln!(f, "{}\n", self.about)?;
        let (heading, unit) = (frames("frames"), format!("ns a {}", self.unit));
        writeln!(f, "  {unit:width$}{heading}{:>14}{:>14}{:>9}", "best", "median", "ratio")?;
        for Row { name, frames: seen, cost, ratio } in &self.rows {
            let seen = frames(&seen.map(|seen| seen.to_string()).unwrap_or_default());
            let (best, median) = (cost.best_ns, cost.median_ns);
            writeln!(f, "  {name:width$}{seen}{best:>14.2}{median:>14.2}{ratio:>9.2}")?;
        }
        writeln!(f)?;
        let (heading, skip) = ("target", frames(""));
        writeln!(f, "  {heading:width$}{skip}{:>14}", "measured")?;
        for Target { what, measured, met } in &self.targets {
            let met = if *met { "met" } else { "NOT MET" };
            writeln!(f, "  {what:width$}{skip}{measured:>14.2}{met:>10}")?;
        }
        self.notes.iter().try_for_each(|note| write!(f, "\n  {note}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_a_missed_target_is_said_to_be_missed() {
        let cost = Cost { best_ns: 2.0, median_ns: 3.0 };
        let mut table = Table::new("a thing", "frame");
        table.row("short", Some(64), cost);
        table.row("a longer × name", None, cost.per(2));
        table.compare_with(2.0);
        table.under(2.0, "under 2 ns", 2.0);
        table.at_least(2.0, "twice", 2.0);
        let text = table.to_string();
        let columns = |text: &str| text.lines().map(|line| line.chars().count()).collect::<Vec<_>>();
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("  ")).collect();
        let rows = &columns(&text)[2..5];
        assert!(rows.iter().all(|width| *width == rows[0]), "{text}");
        assert!(lines[4].ends_with("NOT MET") && lines[5].ends_with("   met"), "{text}");
    }
}
