//! Walks beside the shadow stack.

use super::{Call, Program, ShadowStack, Trace};
use freezeframe_arch::{PacMask, Registers};
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::memory::SliceMemory;
use freezeframe_unwind::rule::{StackBounds, Trust};
use freezeframe_unwind::walk::{Frame, FramePointerWalker, StopReason, Walk, WalkContext, Walker};
use std::fmt::{self, Write};
use std::ops::AddAssign;

/// Walks by tables that began at one instruction and were wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The executable's name.
    pub program: String,
    /// The function that the instruction is in.
    pub function: String,
    /// Where in it.
    pub offset: u64,
    /// The instruction, in hexadecimal.
    pub code: String,
    /// How often.
    pub count: u64,
    /// What was wrong the first time.
    pub first: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, function, offset, code, count, first } = self;
        write!(f, "{count} at {function}+{offset:#x} ({code}) of {program}: {first}")
    }
}

/// What was compared, and what came of it.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Instructions at which the stack was walked.
    pub instructions: u64,
    /// Frames of all walks by tables.
    pub frames: u64,
    /// The deepest stack.
    pub deepest: usize,
    /// Return addresses that carried a signature.
    pub signed: u64,
    /// Walks by tables that were wrong.
    pub wrong: u64,
    /// Walks by frame pointers that were wrong.
    pub wrong_by_frame_pointers: u64,
    /// The wrong walks by tables, each place once for each executable.
    pub mismatches: Vec<Mismatch>,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.frames += other.frames;
        self.deepest = self.deepest.max(other.deepest);
        self.signed += other.signed;
        self.wrong += other.wrong;
        self.wrong_by_frame_pointers += other.wrong_by_frame_pointers;
        self.mismatches.extend(other.mismatches);
    }
}

impl Tally {
    fn note(&mut self, program: &Program, pc: u64, difference: String) {
        self.wrong += 1;
        let (function, offset) = program.name(pc);
        let known = self.mismatches.iter_mut().find(|m| m.offset == offset && m.function == function);
        match known {
            Some(mismatch) => mismatch.count += 1,
            None => self.mismatches.push(Mismatch {
                program: program.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                function: function.to_owned(),
                offset,
                code: code_text(program, pc),
                count: 1,
                first: difference,
            }),
        }
    }

    /// One line about it.
    pub fn line(&self, name: &str) -> String {
        let percent = 100.0 * self.wrong_by_frame_pointers as f64 / self.instructions.max(1) as f64;
        let mut line = format!(
            "{:>7} instructions, {:>7} frames, deepest {:>2}, {:>4} mismatches; by frame pointers {:>7} ({percent:>5.1} %)",
            self.instructions, self.frames, self.deepest, self.wrong, self.wrong_by_frame_pointers
        );
        if self.signed > 0 {
            write!(line, ", {} addresses signed", self.signed).expect("strings take everything");
        }
        line + "  " + name
    }
}

/// Walks at every instruction of a trace of `program`.
///
/// # Errors
/// If the trace or the program is not what the comparison understands.
pub fn compare(program: &Program, words: &[u64], pac: PacMask) -> Result<Tally, String> {
    let text = |error: &dyn std::fmt::Display| format!("{}: {error}", program.path.display());
    let mut tables = SliceMemory::new(program.base, &program.bytes);
    let mut images = Box::new(ImageTable::new());
    images.add(&mut tables, program.base, b"program").ok_or_else(|| text(&"no image"))?;
    let mut context = Box::new(WalkContext::new());
    let mut trace = Trace::new(program.architecture, words).map_err(|error| text(&error))?;
    let mut shadow = ShadowStack::default();
    let mut tally = Tally::default();
    let bounds = trace.bounds();
    while let Some(instant) = trace.advance().map_err(|error| text(&error))? {
        let registers = &instant.registers;
        let pc = registers.pc();
        let calls = shadow
            .advance(&instant, pc - program.name(pc).1, program.code(pc))
            .map_err(|error| text(&error))?;
        let bounds = StackBounds { low: registers.sp(), ..bounds };
        let mut stack = instant.stack;

        let mut walker = Walker::new(registers, bounds, pac, &images, tables, &mut context);
        let (frames, stop) = walk(&mut walker, &mut stack);
        tally.instructions += 1;
        tally.frames += frames.len() as u64;
        tally.deepest = tally.deepest.max(frames.len());
        tally.signed +=
            frames.iter().filter(|frame| pac.strip(frame.address.raw()) != frame.address.raw()).count()
                as u64;
        if let Err(difference) = same(registers, calls, &frames, stop, pac) {
            tally.note(program, pc, difference);
        }

        let mut walker = FramePointerWalker::new(registers, bounds, pac).with_images(&images);
        let (frames, stop) = walk(&mut walker, &mut stack);
        tally.wrong_by_frame_pointers += u64::from(same(registers, calls, &frames, stop, pac).is_err());
    }
    Ok(tally)
}

fn walk<W: Walk>(walk: &mut W, stack: &mut SliceMemory<'_>) -> (Vec<Frame>, StopReason) {
    let mut frames = Vec::new();
    loop {
        match walk.next(stack) {
            Ok(frame) => frames.push(frame),
            Err(stop) => return (frames, stop),
        }
    }
}

/// Whether the frames are where the thread stands and the calls that are going on, and the walk knows that it is at the
/// end. Tables also tell the stack pointer of each frame.
fn same(
    registers: &Registers,
    calls: &[Call],
    frames: &[Frame],
    stop: StopReason,
    pac: PacMask,
) -> Result<(), String> {
    let expected: Vec<u64> =
        [registers.pc()].into_iter().chain(calls.iter().rev().map(|call| call.return_address)).collect();
    let found: Vec<u64> = frames.iter().map(|frame| pac.strip(frame.address.raw())).collect();
    if found != expected {
        return Err(format!("frames {found:x?}, not {expected:x?}; {stop}"));
    }
    if stop != StopReason::EndOfStack {
        return Err(format!("all frames, then {stop}"));
    }
    for (frame, call) in frames.iter().skip(1).zip(calls.iter().rev()) {
        if matches!(frame.trust, Trust::Cfi | Trust::Compact) && frame.sp != call.sp {
            return Err(format!("at {:x?} sp {:#x}, not {:#x}", frame.address, frame.sp, call.sp));
        }
    }
    Ok(())
}

/// The code at `pc`: the instruction of arm64, the first bytes of x86_64, whose instructions differ in length.
fn code_text(program: &Program, pc: u64) -> String {
    let code = program.code(pc);
    match code.first_chunk().filter(|_| code.len() == 4) {
        Some(word) => format!("{:08x}", u32::from_le_bytes(*word)),
        None => code.iter().take(8).map(|byte| format!("{byte:02x}")).collect(),
    }
}
