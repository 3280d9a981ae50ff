//! A walk of known functions' frames: ours through the kernel copy, beside one kernel call a frame, libgcc, and no checks
//! at all.

use crate::ladder;
use crate::measure::{Cost, cost_of};
use crate::table::Table;
use freezeframe_arch::Registers;
use freezeframe_unwind::images::{ImageTable, ImagesError};
use freezeframe_unwind::init::pac_mask;
use freezeframe_unwind::memory::{Memory, ProcessMemory, SliceMemory, StackCopy};
use freezeframe_unwind::rule::StackBounds;
use freezeframe_unwind::walk::{Backtrace, Depth, Frame, FramePointerWalker, Walk as _};
use std::error::Error;
use std::hint::black_box;

/// The size of a window: most stacks fit into one.
pub(crate) const WINDOW: usize = 64 * 1024;
/// Stack enough below the ladder for a whole window, and not so much that the lowest frames lie outside it.
const BELOW: usize = WINDOW - 8 * 1024;
pub(crate) const DEPTH: Depth = Depth { innermost: 192, outermost: 64 };
pub(crate) const FRAMES: usize = DEPTH.innermost + DEPTH.outermost;

pub(crate) fn run() -> Result<Vec<Table>, Box<dyn Error>> {
    let images = images()?;
    let foot = freezeframe_arch::capture().fp();
    let mut table = Table::new("a walk of 64 functions' frames and the few around them", "frame");
    let mut result = Err("not measured".to_owned());
    ladder::climb::<0>(&mut || result = small_stack(&mut table, &images, foot));
    let (ours, one) = result?;
    // The same frames on a stack that fills the window: the copy is what costs.
    let mut result = Err("not measured".to_owned());
    ladder::climb::<BELOW>(&mut || result = large_stack(&mut table, &images));
    result?;

    table.compare_with(ours);
    table.under(30.0, "under 30 ns through the kernel's copy", ours);
    table.at_least(25.0, "25 × under one kernel call a frame", one / ours);
    Ok(vec![table])
}

/// In a frame of its own, which is gone by the time of the walks: the table passes over the stack.
#[inline(never)]
pub(crate) fn images() -> Result<Box<ImageTable>, ImagesError> {
    let mut images = Box::new(ImageTable::new());
    images.refresh()?;
    Ok(images)
}

/// Everything, on a stack that holds little more than the ladder. Yields our cost through the copy, and that of one
/// kernel call a frame.
#[inline(never)]
fn small_stack(table: &mut Table, images: &ImageTable, foot: u64) -> Result<(f64, f64), String> {
    let mut walk = Walk::new(freezeframe_arch::capture(), images);
    let fp = walk.registers.fp();
    let ours = walk.through_copy(table, "in known code")?;
    let itself = walk.in_copy(table, "the walk alone, in known code", |walk, copy| walk.frames_only(copy))?;
    walk.in_copy(table, "the walk with its summary, in known code", |walk, copy| walk.once(copy))?;
    walk.images = None;
    walk.through_copy(table, "in any memory")?;
    let unknown =
        walk.in_copy(table, "the walk alone, in any memory", |walk, copy| walk.frames_only(copy))?;
    let mut call = CallForEach { process: std::process::id() as i32 };
    let one = walk.measured(table, "one kernel call a frame", &mut call)?;
    walk.measured(table, "one kernel call a frame, and getpid", &mut ProcessMemory::new())?;
    unchecked(table, fp, foot)?;
    libgcc(table)?;
    table.under(2.0, "under 2 ns for the walk alone, in known code", itself);
    table.under(2.0, "under 2 ns for the walk alone, in any memory", unknown);
    Ok((ours, one))
}

/// The costs that depend on the stack's size.
#[inline(never)]
fn large_stack(table: &mut Table, images: &ImageTable) -> Result<f64, String> {
    Walk::new(freezeframe_arch::capture(), images).through_copy(table, "in known code")
}

/// What a capture knows of the main thread's stack.
pub(crate) fn bounds(registers: &Registers, images: &ImageTable) -> StackBounds {
    let (low, main) = (registers.sp(), images.main_stack());
    if main.contains(low) { StackBounds { low, high: main.end } } else { StackBounds::above(low) }
}

/// Our walk from the same place each time.
struct Walk<'a> {
    registers: Registers,
    bounds: StackBounds,
    images: Option<&'a ImageTable>,
    frames: Vec<Frame>,
    buffer: Vec<u8>,
}

impl<'a> Walk<'a> {
    fn new(registers: Registers, images: &'a ImageTable) -> Self {
        Self {
            registers,
            bounds: bounds(&registers, images),
            images: Some(images),
            frames: vec![Frame::EMPTY; FRAMES],
            buffer: vec![0; WINDOW],
        }
    }

    fn walker(&self) -> FramePointerWalker<'a> {
        let walker = FramePointerWalker::new(&self.registers, self.bounds, pac_mask());
        match self.images {
            Some(images) => walker.with_images(images),
            None => walker,
        }
    }

    /// As a capture walks: frames, and what is to be said of them all.
    fn once<M: Memory>(&mut self, memory: &mut M) -> usize {
        let mut walker = self.walker();
        Backtrace::new(&mut self.frames, DEPTH).collect(&mut walker, memory).kept
    }

    /// Nothing but the frames.
    fn frames_only<M: Memory>(&mut self, memory: &mut M) -> usize {
        self.walker().fill(memory, &mut self.frames).0
    }

    /// A new copy for each walk, as a capture makes it.
    fn through_copy(&mut self, table: &mut Table, name: &str) -> Result<f64, String> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let bounds = self.bounds;
        let copied = ((bounds.high - bounds.low) as usize).min(WINDOW);
        let name = format!("{:.1} KiB copied, {name}", copied as f64 / 1024.0);
        let mut copies = 0;
        let result = self.row(table, &name, |walk| {
            let mut memory = ProcessMemory::new();
            let mut copy = StackCopy::new(&mut buffer);
            copy.fill(&mut memory, bounds.low, bounds.high);
            let frames = walk.once(&mut copy.continue_in(&mut memory));
            copies = copy.copies();
            frames
        });
        self.buffer = buffer;
        if copies > 1 { Err(format!("{name}: {copies} copies, not one")) } else { result }
    }

    /// The walk in a copy that is there already.
    fn in_copy(
        &mut self,
        table: &mut Table,
        name: &str,
        walk: impl Fn(&mut Self, &mut SliceMemory<'_>) -> usize,
    ) -> Result<f64, String> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut copy = StackCopy::new(&mut buffer);
        copy.fill(&mut ProcessMemory::new(), self.bounds.low, self.bounds.high);
        let result = self.row(table, name, |this| walk(this, &mut copy.window()));
        self.buffer = buffer;
        result
    }

    fn measured<M: Memory>(&mut self, table: &mut Table, name: &str, memory: &mut M) -> Result<f64, String> {
        self.row(table, name, |walk| walk.once(memory))
    }

    fn row(
        &mut self,
        table: &mut Table,
        name: &str,
        mut walk: impl FnMut(&mut Self) -> usize,
    ) -> Result<f64, String> {
        let frames = walk(self);
        let pcs: Vec<u64> = self.frames.iter().take(frames).map(|frame| frame.address.raw()).collect();
        let cost = cost_of(|| {
            black_box(walk(self));
        });
        row(table, name, &pcs, cost)
    }
}

/// Adds a row for a walk that saw `pcs`, if the ladder is there.
pub(crate) fn row(table: &mut Table, name: &str, pcs: &[u64], cost: Cost) -> Result<f64, String> {
    ladder::check(name, pcs)?;
    Ok(table.row(name, Some(pcs.len()), cost.per(pcs.len())))
}

/// Memory that is nothing but the kernel call, one for each frame record: not even the process is asked for.
struct CallForEach {
    process: i32,
}

impl Memory for CallForEach {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        let local = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
        let remote = libc::iovec { iov_base: address as *mut _, iov_len: out.len() };
        // SAFETY: the kernel writes at most `out.len()` bytes to `out`; the remote side is only read, with checks.
        let copied = unsafe { libc::process_vm_readv(self.process, &local, 1, &remote, 1, 0) };
        usize::try_from(copied).unwrap_or(0)
    }
}

/// The floor: no checks, no memory but the process's own, an end that is known.
fn unchecked(table: &mut Table, fp: u64, foot: u64) -> Result<f64, String> {
    let mut pcs = vec![0; FRAMES];
    let mut walk = || {
        let (mut fp, mut frames) = (fp as *const [u64; 2], 0);
        while fp as u64 != foot && frames < FRAMES {
            // SAFETY: a frame record of this thread between here and `foot`, whose functions are all on the stack and
            // were all compiled with frame pointers.
            let [caller, pc] = unsafe { *fp };
            pcs[frames] = pc;
            frames += 1;
            fp = caller as *const _;
        }
        black_box(&mut pcs);
        frames
    };
    let frames = walk();
    let cost = cost_of(|| {
        black_box(walk());
    });
    row(table, "frame pointers, unchecked", &pcs[..frames], cost)
}

/// `_Unwind_Backtrace`, which is what the `backtrace` crate calls.
pub(crate) fn libgcc(table: &mut Table) -> Result<f64, String> {
    let mut pcs = Vec::new();
    backtrace::trace(|frame| {
        pcs.push(frame.ip() as u64);
        true
    });
    let cost = cost_of(|| backtrace::trace(|_| true));
    row(table, "backtrace crate (libgcc)", &pcs, cost)
}
