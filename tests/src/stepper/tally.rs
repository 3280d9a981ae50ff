//! What was compared, and what differed where.

use std::collections::BTreeMap;
use std::fmt;

/// How a walk differs from the shadow call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The walk ended though there were more callers.
    CallerLost,
    /// The walk went on though there were no more callers.
    ExtraFrame,
    /// The walk went on to another address.
    WrongCaller,
    /// The right address, with another stack pointer.
    WrongStackPointer,
    /// All callers, but the walk does not say that the stack ends there.
    WrongStop,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CallerLost => "caller lost",
            Self::ExtraFrame => "extra frame",
            Self::WrongCaller => "wrong caller",
            Self::WrongStackPointer => "wrong stack pointer",
            Self::WrongStop => "wrong stop",
        })
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// What differs.
    pub kind: Kind,
    /// How many frames were right: the last of them, at index `right - 1`, was left in a wrong way.
    pub right: usize,
    /// Expected and found.
    pub detail: String,
}

/// How many groups of differences are printed.
const GROUPS: usize = 25;

/// Differences with one cause.
#[derive(Clone, Debug, Default)]
struct Group {
    count: u64,
    example: String,
}

/// The counts of one program, or of all.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Instructions that were executed.
    pub stepped: u64,
    /// Instructions at which the whole walk was compared.
    pub compared: u64,
    /// Frames of these walks.
    pub frames: u64,
    /// Walks that differ where no exception explains it.
    pub mismatches: u64,
    /// Walks by frame pointers that are right to the end, and those whose first caller is right.
    pub by_frame_pointers: [u64; 2],
    /// Walks from the stack pointer and the program counter alone that claim to be whole, and those of them that are not
    /// right.
    pub by_two_registers: [u64; 2],
    /// Return addresses that the program had overwritten.
    pub rewritten: u64,
    /// Returns to another address than the one that was pushed.
    pub odd_returns: u64,
    /// Handlers entered.
    pub signals: u64,
    groups: BTreeMap<(String, Kind), Group>,
    excepted: BTreeMap<(&'static str, String), u64>,
}

impl Tally {
    /// Counts a difference in code of that name.
    pub fn differ(&mut self, name: String, mismatch: &Mismatch) {
        self.mismatches += 1;
        let group = self.groups.entry((name, mismatch.kind)).or_default();
        group.count += 1;
        if group.count == 1 {
            group.example = mismatch.detail.clone();
        }
    }

    /// Counts a difference in code of that name that has a known reason.
    pub fn except(&mut self, reason: &'static str, name: String) {
        *self.excepted.entry((reason, name)).or_default() += 1;
    }

    /// Adds another tally's counts.
    pub fn add(&mut self, other: &Self) {
        self.stepped += other.stepped;
        self.compared += other.compared;
        self.frames += other.frames;
        self.mismatches += other.mismatches;
        self.by_frame_pointers[0] += other.by_frame_pointers[0];
        self.by_frame_pointers[1] += other.by_frame_pointers[1];
        self.by_two_registers[0] += other.by_two_registers[0];
        self.by_two_registers[1] += other.by_two_registers[1];
        self.rewritten += other.rewritten;
        self.odd_returns += other.odd_returns;
        self.signals += other.signals;
        for (key, group) in &other.groups {
            let sum = self.groups.entry(key.clone()).or_default();
            sum.count += group.count;
            sum.example.clone_from(&group.example);
        }
        for (key, count) in &other.excepted {
            *self.excepted.entry(key.clone()).or_default() += count;
        }
    }
}

fn first_of(names: &[&str]) -> String {
    let more = names.len().saturating_sub(6);
    let names = names[..names.len() - more].join(", ");
    if more > 0 { format!("{names} and {more} more") } else { names }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |part: u64| 100.0 * part as f64 / self.compared.max(1) as f64;
        let [whole, first] = self.by_frame_pointers;
        write!(
            f,
            "{} instructions stepped, {} compared ({} frames, {} signals handled), {} mismatches; by frame pointers \
             {:.1} % are right, {:.1} % have the right caller",
            self.stepped,
            self.compared,
            self.frames,
            self.signals,
            self.mismatches,
            share(whole),
            share(first)
        )?;
        let [claimed, wrong] = self.by_two_registers;
        write!(f, "; from two registers {:.1} % are whole, {wrong} of them wrong", share(claimed))?;
        if self.odd_returns > 0 || self.rewritten > 0 {
            let Self { rewritten, odd_returns, .. } = self;
            write!(f, "; {rewritten} return addresses overwritten, {odd_returns} returns elsewhere")?;
        }
        let mut reasons: BTreeMap<&str, (u64, Vec<&str>)> = BTreeMap::new();
        for ((reason, name), count) in &self.excepted {
            let (sum, names) = reasons.entry(reason).or_default();
            *sum += count;
            names.push(name);
        }
        for (reason, (count, names)) in reasons {
            write!(f, "\n    excepted {count:6}  {reason}: {}", first_of(&names))?;
        }
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.count));
        for ((name, kind), group) in groups.iter().take(GROUPS) {
            write!(f, "\n    {:6}  {kind} in {name}: {}", group.count, group.example)?;
        }
        if groups.len() > GROUPS {
            write!(f, "\n    and {} groups more", groups.len() - GROUPS)?;
        }
        Ok(())
    }
}
