//! A walk of known functions' frames by unwind tables: ours with rules kept and without, beside framehop, gimli,
//! libunwind and libgcc.

mod by_framehop;
mod by_gimli;
mod by_libunwind;
mod mapped;
mod ours;

use crate::measure::{Cost, best_of};
use crate::table::Table;
use crate::walk::{FRAMES, WINDOW, bounds, images, libgcc};
use crate::{ladder, walk};
use freezeframe_arch::Registers;
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::memory::{ProcessMemory, StackCopy};
use freezeframe_unwind::rule::{Rule, RuleCache, StackBounds};
use freezeframe_unwind::tables::cfi::RowContext;
use freezeframe_unwind::walk::WalkContext;
use mapped::Mapped;
use std::error::Error;
use std::time::Instant;

pub(crate) fn run() -> Result<Vec<Table>, Box<dyn Error>> {
    let images = images()?;
    let mapped = Mapped::read(&images)?;
    let mut table =
        Table::new("a walk of 64 functions' frames and the few around them, by unwind tables", "frame");
    let mut result = Err("not measured".to_owned());
    ladder::climb::<0>(&mut || result = everything(&mut table, &images, &mapped));
    result?;
    let sizes = [
        ("WalkContext", size_of::<WalkContext>()),
        ("RowContext", size_of::<RowContext>()),
        ("Rule", size_of::<Rule>()),
        ("an entry of RuleCache", RuleCache::ENTRY_SIZE),
    ];
    table.notes.extend(sizes.map(|(name, size)| format!("{name}: {size} bytes")));
    Ok(vec![table])
}

/// Where all walks begin that are told where: in a function that is there as long as they are.
struct Start<'a> {
    registers: Registers,
    bounds: StackBounds,
    images: &'a ImageTable,
    mapped: &'a Mapped,
}

#[inline(never)]
fn everything(table: &mut Table, images: &ImageTable, mapped: &Mapped) -> Result<(), String> {
    let registers = freezeframe_arch::capture();
    let start = Start { registers, bounds: bounds(&registers, images), images, mapped };
    let mut buffer = vec![0; WINDOW];
    let mut copy = StackCopy::new(&mut buffer);
    copy.fill(&mut ProcessMemory::new(), start.bounds.low, start.bounds.high);
    let stack = copy.window();

    let ours = ours::walks(table, &start, stack)?;
    let framehop = by_framehop::walks(table, &start)?;
    let libgcc = libgcc(table)?;
    by_libunwind::walks(table)?;
    by_gimli::walk(table, &start, stack)?;

    table.compare_with(ours.kept);
    table.under(framehop, "rules kept: under framehop's", ours.kept);
    table.under(3.4, "rules kept: under 3.4 ns", ours.kept);
    table.under(libgcc, "no rules kept: under libgcc's", ours.not_kept);
    table.under(95.0, "no rules kept: under 95 ns", ours.not_kept);
    table.under(1.0, "allocations in our walks: none", ours.allocations as f64);
    Ok(())
}

/// Adds a row for `walk`, which is timed over and over; it notes the addresses, and returns how many there are.
fn row(table: &mut Table, name: &str, mut walk: impl FnMut(&mut [u64]) -> usize) -> Result<f64, String> {
    let mut pcs = vec![0; FRAMES];
    let frames = walk(&mut pcs);
    let seen = pcs[..frames].to_vec();
    let cost = crate::measure::cost_of(|| {
        std::hint::black_box(walk(&mut pcs));
    });
    walk::row(table, name, &seen, cost)
}

/// What `walk` costs with a `place` that `renew` has made new before each.
fn cost_of_first<T>(place: &mut T, renew: impl Fn(&mut T), mut walk: impl FnMut(&mut T)) -> Cost {
    const WALKS: usize = 2000;
    best_of(WALKS, || {
        renew(place);
        let began = Instant::now();
        walk(place);
        began.elapsed().as_nanos() as f64
    })
}
