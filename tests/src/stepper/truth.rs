//! The loop: step, note, walk, compare.

use super::exceptions::{PATIENCE, Pending, REALIGNED};
use super::{Child, Images, ImagesMemory, Instruction, Kind, Mismatch, Shadow, Stop, StoppedMemory, Tally};
use freezeframe_arch::{Architecture, PacMask, Registers, RegistersX86_64};
use freezeframe_unwind::rule::{FrameAddress, KnownRegisters, StackBounds};
use freezeframe_unwind::walk::{Frame, FramePointerWalker, StopReason, Walk, WalkContext, Walker};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::process::Command;

/// Where stepping begins. No call has been made there, so that the shadow call stack is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The first instruction of all: the dynamic loader's.
    Loader,
    /// The first instruction of the program itself.
    Program,
}

/// How a program is stepped.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Where stepping begins.
    pub start: Start,
    /// How often a place with the same callers is compared.
    pub repeats: u32,
    /// Whether the tables' memory lends its bytes.
    pub lends: bool,
}

/// A program, its shadow call stack, and what the walk needs.
pub struct Stepper {
    child: Child,
    images: Images,
    memory: StoppedMemory,
    shadow: Shadow,
    context: Box<WalkContext>,
    pending: Vec<Pending>,
    /// How often a place was compared, by its address and callers.
    seen: HashMap<u64, u32>,
    repeats: u32,
    tally: Tally,
}

impl Stepper {
    /// Starts a program.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(command: &mut Command, settings: Settings) -> io::Result<Self> {
        let mut child = Child::start(command)?;
        if settings.start == Start::Program {
            child.run_to_entry()?;
        }
        Ok(Self {
            images: Images::of(child.pid(), settings.lends)?,
            memory: StoppedMemory::new(child.pid()),
            shadow: Shadow::default(),
            context: Box::new(WalkContext::new()),
            child,
            pending: Vec::new(),
            seen: HashMap::new(),
            repeats: settings.repeats,
            tally: Tally::default(),
        })
    }

    /// Steps the program to its end, or for `limit` instructions, and returns how it ended: none at the limit.
    ///
    /// # Errors
    /// The program is gone.
    pub fn run(&mut self, limit: u64) -> io::Result<Option<Stop>> {
        let mut before = self.child.registers()?;
        let mut signal = 0;
        self.compare(&before);
        while self.tally.stepped < limit {
            let handled = signal != 0 && self.child.handles(signal);
            let instruction = Instruction::decode(self.code(before.rip)?);
            match self.child.step(std::mem::take(&mut signal))? {
                Stop::Stepped => {}
                // The instruction was not executed; it may be after the handler.
                Stop::Signal(number) if self.child.registers()? == before => {
                    signal = number;
                    continue;
                }
                Stop::Signal(number) => signal = number,
                ended => return self.ended(ended),
            }
            self.memory.forget();
            self.tally.stepped += 1;
            let after = self.child.registers()?;
            let landed = if handled {
                self.tally.signals += 1;
                self.shadow.signalled(&before, &after, &mut self.memory);
                false
            } else {
                self.shadow.executed(instruction, &before, &after, &mut self.memory)
            };
            self.settle(landed, &after);
            self.compare(&after);
            before = after;
        }
        self.ended(Stop::Stepped).map(|_| None)
    }

    /// What was counted.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    fn ended(&mut self, stop: Stop) -> io::Result<Option<Stop>> {
        for Pending { name, mismatch, .. } in std::mem::take(&mut self.pending) {
            self.tally.differ(name, &mismatch);
        }
        self.tally.odd_returns = self.shadow.odd_returns;
        Ok(Some(stop))
    }

    /// The code at `rip`; nothing where there is none.
    fn code(&mut self, rip: u64) -> io::Result<&[u8]> {
        if self.images.memory().tail(rip).is_none() {
            self.images.refresh(self.child.pid())?;
        }
        Ok(self.images.memory().tail(rip).unwrap_or(&[]))
    }

    fn compare(&mut self, registers: &RegistersX86_64) {
        if self.repeats != u32::MAX {
            let mut hasher = DefaultHasher::new();
            registers.rip.hash(&mut hasher);
            self.shadow.callers().for_each(|caller| caller.address.hash(&mut hasher));
            let seen = self.seen.entry(hasher.finish()).or_default();
            *seen += 1;
            if *seen > self.repeats {
                return;
            }
        }
        self.tally.compared += 1;
        let mut result = self.by_tables(registers);
        if result.is_err() && self.shadow.rewritten(&mut self.memory) {
            self.tally.rewritten += 1;
            result = self.by_tables(registers);
        }
        self.tally.frames += self.shadow.depth() as u64 + 1;
        if result.is_ok()
            && let Some(right) = self.by_two_registers(registers)
        {
            self.tally.by_two_registers[0] += 1;
            self.tally.by_two_registers[1] += u64::from(!right);
        }
        if let Err(mismatch) = result {
            self.differ(registers, mismatch);
        }
        let right = self.by_frame_pointers(registers);
        self.tally.by_frame_pointers[0] += u64::from(right.is_none());
        self.tally.by_frame_pointers[1] += u64::from(right.is_none_or(|right| right >= 2));
    }

    fn differ(&mut self, registers: &RegistersX86_64, mut mismatch: Mismatch) {
        let first = FrameAddress::InstructionPointer(registers.rip);
        let frames: Vec<u64> = [first]
            .into_iter()
            .chain(self.shadow.callers().map(|caller| caller.address))
            .map(FrameAddress::lookup)
            .collect();
        // The last frame that is right was left in a wrong way.
        let wrong = frames.get(mismatch.right - 1).copied().unwrap_or(registers.rip);
        let place = self.images.place(wrong);
        let name = format!("{}!{}", place.image, place.symbol);
        let innermost = self.images.place(registers.rip);
        let caller_has_rbp = self.shadow.callers().next().is_some_and(|caller| caller.rbp == registers.rbp);
        if mismatch.right > 1 && caller_has_rbp && self.images.is_rbp_in_expression(registers.rip) {
            return self.tally.except(REALIGNED, format!("{}!{}", innermost.image, innermost.symbol));
        }
        mismatch.detail =
            format!("{} at {place}, stopped in {innermost}, step {}", mismatch.detail, self.tally.stepped);
        let is_unwinder = |address: &u64| self.images.place(*address).symbol.starts_with("_Unwind_");
        let from_unwinder =
            frames.iter().take(mismatch.right).skip_while(|address| !is_unwinder(address)).count();
        let found = self.found(registers);
        self.pending.push(Pending { step: self.tally.stepped, name, mismatch, found, from_unwinder });
    }

    /// Decides about the differences that wait for a jump over frames, if there was one or the wait is over.
    fn settle(&mut self, landed: bool, registers: &RegistersX86_64) {
        let step = self.tally.stepped;
        let overdue = self.pending.first().is_some_and(|first| step - first.step > PATIENCE);
        if !landed && !overdue {
            return;
        }
        for pending in std::mem::take(&mut self.pending) {
            let recent = step - pending.step <= PATIENCE;
            let target = (registers.rip, registers.rsp);
            match pending.explained_by(target, &self.shadow).filter(|_| landed && recent) {
                Some(reason) => self.tally.except(reason, pending.name),
                None if !landed && recent => self.pending.push(pending),
                None => self.tally.differ(pending.name, &pending.mismatch),
            }
        }
    }

    /// All callers that the walk finds.
    fn found(&mut self, registers: &RegistersX86_64) -> Vec<(FrameAddress, u64)> {
        let mut walker = walker(registers, &self.images, &mut self.context);
        let _ = walker.next(&mut self.memory);
        let frames = std::iter::from_fn(|| walker.next(&mut self.memory).ok());
        frames.map(|frame| (frame.address, frame.sp)).collect()
    }

    fn by_tables(&mut self, registers: &RegistersX86_64) -> Result<(), Mismatch> {
        let walker = walker(registers, &self.images, &mut self.context);
        let (stop, right) = same_callers(walker, &mut self.memory, &self.shadow)?;
        match stop {
            StopReason::EndOfStack => Ok(()),
            _ => Err(Mismatch { kind: Kind::WrongStop, right, detail: stop.to_string() }),
        }
    }

    /// Whether a walk is right of which only the stack pointer and the program counter are known; none if it does not claim
    /// to be.
    fn by_two_registers(&mut self, registers: &RegistersX86_64) -> Option<bool> {
        let two = RegistersX86_64 { rip: registers.rip, rsp: registers.rsp, ..Default::default() };
        let known = KnownRegisters::stack_and_program_counter(Architecture::X86_64);
        let mut walker =
            walker(&two, &self.images, &mut self.context).knowing(&Registers::X86_64(two), known);
        let _ = walker.next(&mut self.memory);
        let mut callers = self.shadow.callers();
        let mut right = true;
        let mut frames = [Frame::EMPTY; BLOCK];
        loop {
            let (filled, result) = walker.fill(&mut self.memory, &mut frames);
            for frame in &frames[..filled] {
                let caller = callers.next();
                right &=
                    caller.is_some_and(|caller| (caller.address, caller.sp) == (frame.address, frame.sp));
            }
            if let Err(stop) = result {
                let claims = stop == StopReason::EndOfStack && !walker.lacked_register();
                return claims.then(|| right && callers.next().is_none());
            }
        }
    }

    /// How many frames are right, if not all are.
    fn by_frame_pointers(&mut self, registers: &RegistersX86_64) -> Option<usize> {
        let bounds = StackBounds { low: registers.rsp, high: self.images.stack_end };
        let walker = FramePointerWalker::new(&Registers::X86_64(*registers), bounds, PacMask::NONE);
        same_callers(walker, &mut self.memory, &self.shadow).err().map(|mismatch| mismatch.right)
    }
}

fn walker<'a>(
    registers: &RegistersX86_64,
    images: &'a Images,
    context: &'a mut WalkContext,
) -> Walker<'a, ImagesMemory<'a>> {
    let bounds = StackBounds { low: registers.rsp, high: images.stack_end };
    let registers = Registers::X86_64(*registers);
    Walker::new(&registers, bounds, PacMask::NONE, &images.table, images.memory(), context)
}

/// How many frames are asked for at once.
const BLOCK: usize = 24;

/// The frames of a walk, taken as a capture takes them: many at once.
struct Frames<W> {
    walker: W,
    frames: [Frame; BLOCK],
    at: usize,
    filled: usize,
    stop: Option<StopReason>,
}

impl<W: Walk> Frames<W> {
    fn next(&mut self, memory: &mut StoppedMemory) -> Result<Frame, StopReason> {
        if self.at == self.filled && self.stop.is_none() {
            let (filled, result) = self.walker.fill(memory, &mut self.frames);
            (self.at, self.filled, self.stop) = (0, filled, result.err());
        }
        match (self.frames[..self.filled].get(self.at), self.stop) {
            (Some(frame), _) => {
                self.at += 1;
                Ok(*frame)
            }
            (None, stop) => Err(stop.unwrap_or(StopReason::Limit)),
        }
    }
}

/// Compares a walk with the shadow call stack. If all callers are the same, why the walk ended, and how many frames it had.
fn same_callers(
    walker: impl Walk,
    memory: &mut StoppedMemory,
    shadow: &Shadow,
) -> Result<(StopReason, usize), Mismatch> {
    let mut walker = Frames { walker, frames: [Frame::EMPTY; BLOCK], at: 0, filled: 0, stop: None };
    let _ = walker.next(memory);
    let mut right = 1;
    let differ = |kind, right, detail| Err(Mismatch { kind, right, detail });
    let mut callers = shadow.callers();
    loop {
        match (callers.next(), walker.next(memory)) {
            (None, Err(stop)) => return Ok((stop, right)),
            (None, Ok(frame)) => return differ(Kind::ExtraFrame, right, format!("{:x?}", frame.address)),
            (Some(caller), Err(stop)) => {
                return differ(Kind::CallerLost, right, format!("{stop}, not {:x?}", caller.address));
            }
            (Some(caller), Ok(frame)) if frame.address != caller.address => {
                let detail = format!("{:x?}, not {:x?}", frame.address, caller.address);
                return differ(Kind::WrongCaller, right, detail);
            }
            (Some(caller), Ok(frame)) if frame.sp != caller.sp => {
                let detail = format!("{:#x}, not {:#x}", frame.sp, caller.sp);
                return differ(Kind::WrongStackPointer, right, detail);
            }
            (Some(_), Ok(_)) => right += 1,
        }
    }
}

impl std::fmt::Debug for Stepper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stepper").field("child", &self.child).field("tally", &self.tally).finish()
    }
}
