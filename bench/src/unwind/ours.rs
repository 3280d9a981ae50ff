//! Our walks.

use super::{Start, cost_of_first};
use crate::allocations;
use crate::measure::cost_of;
use crate::table::Table;
use crate::walk::{DEPTH, FRAMES, WINDOW, row};
use freezeframe_arch::Architecture;
use freezeframe_unwind::init::pac_mask;
use freezeframe_unwind::memory::{Memory, Pages, ProcessMemory, SliceMemory, StackCopy};
use freezeframe_unwind::rule::{FrameAddress, KnownRegisters};
use freezeframe_unwind::tables::cfi::{RowContext, Tables};
use freezeframe_unwind::walk::{Backtrace, Frame, Walk as _, WalkContext, Walker};
use std::hint::black_box;

/// What the targets are about, in ns.
pub(super) struct Ours {
    pub(super) kept: f64,
    pub(super) not_kept: f64,
    /// In how many places walks of ours have allocated.
    pub(super) allocations: u64,
}

/// All rows of ours.
#[inline(never)]
pub(super) fn walks(table: &mut Table, start: &Start<'_>, stack: SliceMemory<'_>) -> Result<Ours, String> {
    let mut context = Box::new(WalkContext::new());
    let mut buffer = vec![0; WINDOW];
    let mut bench = Bench { table, start, frames: vec![Frame::EMPTY; FRAMES], allocations: 0 };
    let kept = bench.row("rules kept, in the copy", |start, frames| {
        start.walker(&mut context).fill(&mut { stack }, frames).0
    })?;
    bench.row("rules kept, in the copy, with its summary", |start, frames| {
        start.once(&mut context, &mut { stack }, frames)
    })?;
    bench.row("rules kept, with the copy", |start, frames| {
        let mut memory = ProcessMemory::new();
        let mut copy = StackCopy::new(&mut buffer);
        copy.fill(&mut memory, start.bounds.low, start.bounds.high);
        start.once(&mut context, &mut copy.continue_in(&mut memory), frames)
    })?;
    let mut rows = RowContext::new();
    let not_kept = bench.row("no rules kept, tables as mapped", |start, frames| {
        start.by_rows(&mut { start.mapped }, &mut { stack }, &mut rows, frames)
    })?;
    let (mut pages, mut memory) = (Box::new(Pages::new()), ProcessMemory::new());
    bench.row("no rules kept, tables in kept pages", |start, frames| {
        start.by_rows(&mut pages.over(&mut memory), &mut { stack }, &mut rows, frames)
    })?;
    bench.first_walk(stack)?;
    Ok(Ours { kept, not_kept, allocations: bench.allocations })
}

impl<'a> Start<'a> {
    fn walker<'c>(&self, context: &'c mut WalkContext) -> Walker<'c, ProcessMemory>
    where
        'a: 'c,
    {
        Walker::new(&self.registers, self.bounds, pac_mask(), self.images, ProcessMemory::new(), context)
    }

    /// As a capture walks: frames, and what is to be said of them all.
    fn once<M: Memory>(&self, context: &mut WalkContext, memory: &mut M, frames: &mut [Frame]) -> usize {
        Backtrace::new(frames, DEPTH).collect(&mut self.walker(context), memory).kept
    }

    /// From row to row: each frame's is looked up and executed anew.
    fn by_rows<T: Memory, M: Memory>(
        &self,
        tables: &mut T,
        stack: &mut M,
        rows: &mut RowContext,
        frames: &mut [Frame],
    ) -> usize {
        let pac = pac_mask();
        let (mut registers, mut known) = (self.registers, KnownRegisters::ALL);
        let mut address = FrameAddress::InstructionPointer(registers.pc());
        let mut filled = 0;
        for slot in frames {
            *slot = Frame { address, ..Frame::EMPTY };
            filled += 1;
            let lookup = address.with(pac.strip(address.raw())).lookup();
            let Some((_, image)) = self.images.find(lookup) else { break };
            let eh_frame_hdr = Some(image.eh_frame_hdr);
            let image = Tables { eh_frame_hdr, ..Tables::new(image.range) };
            let Ok(row) = image.row(tables, Architecture::NATIVE, lookup, rows) else { break };
            let Ok(caller) = row.apply(stack, tables, &registers, known) else { break };
            let Some(pc) = caller.return_address else { break };
            (registers, known) = (caller.registers, caller.known);
            address = FrameAddress::ReturnAddress(pc);
        }
        filled
    }
}

/// Where rows of ours are made.
struct Bench<'a> {
    table: &'a mut Table,
    start: &'a Start<'a>,
    frames: Vec<Frame>,
    allocations: u64,
}

impl Bench<'_> {
    /// Adds a row for `walk`. The first walk, which learns, and one that knows are watched for allocations.
    fn row(
        &mut self,
        name: &str,
        mut walk: impl FnMut(&Start<'_>, &mut [Frame]) -> usize,
    ) -> Result<f64, String> {
        let mut seen = 0;
        let Self { start, frames, .. } = self;
        self.allocations += allocations::during(|| {
            seen = walk(start, frames);
            black_box(walk(start, frames));
        });
        let pcs = pcs(frames, seen);
        let cost = cost_of(|| {
            black_box(walk(start, frames));
        });
        row(self.table, name, &pcs, cost)
    }

    /// Nothing is known yet, neither rules nor pages.
    fn first_walk(&mut self, stack: SliceMemory<'_>) -> Result<f64, String> {
        let mut context = Box::new(WalkContext::new());
        let Self { start, frames, .. } = self;
        let mut seen = 0;
        self.allocations +=
            allocations::during(|| seen = start.walker(&mut context).fill(&mut { stack }, frames).0);
        let pcs = pcs(frames, seen);
        let renew = |context: &mut WalkContext| *context = WalkContext::new();
        let cost = cost_of_first(&mut *context, renew, |context| {
            black_box(start.walker(context).fill(&mut { stack }, frames).0);
        });
        row(self.table, "the first walk, tables through the kernel", &pcs, cost)
    }
}

fn pcs(frames: &[Frame], count: usize) -> Vec<u64> {
    frames.iter().take(count).map(|frame| frame.address.raw()).collect()
}
