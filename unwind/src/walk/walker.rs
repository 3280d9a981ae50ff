//! The walk: one step at a time, from a thread's registers outward.

use super::context::{Finder, Found, WalkContext};
use super::registers::WalkRegisters;
use super::signal::interrupted;
use super::{Frame, StopReason, Walk};
use crate::images::ImageTable;
use crate::memory::Memory;
use crate::rule::{FrameAddress, KnownRegisters, Rule, RuleError, SavedRule, StackBounds, Trust};
use freezeframe_arch::{Architecture, PacMask, Registers};

/// Walks a stack by unwind tables, and by the frame pointer in code that has none.
///
/// Each frame must lie strictly above the last one and inside the bounds, and each return address in code: else the
/// walk ends, with the reason. So it always ends, and does not invent frames.
///
/// ```
/// use freezeframe_unwind::images::ImageTable;
/// use freezeframe_unwind::init::pac_mask;
/// use freezeframe_unwind::memory::ProcessMemory;
/// use freezeframe_unwind::rule::StackBounds;
/// use freezeframe_unwind::walk::{StopReason, Walk, WalkContext, Walker};
/// use std::sync::Mutex;
///
/// static STORAGE: Mutex<(ImageTable, WalkContext)> = Mutex::new((ImageTable::new(), WalkContext::new()));
///
/// let (images, context) = &mut *STORAGE.lock().unwrap();
/// images.refresh()?;
/// let registers = freezeframe_arch::capture();
/// let bounds = StackBounds::above(registers.sp());
/// let mut memory = ProcessMemory::new();
/// let mut walker = Walker::new(&registers, bounds, pac_mask(), images, ProcessMemory::new(), context);
/// let stop = loop {
///     match walker.next(&mut memory) {
///         Ok(frame) => println!("{:#x} {:?}", frame.address.raw(), frame.trust),
///         Err(stop) => break stop,
///     }
/// };
/// assert_eq!(stop, StopReason::EndOfStack);
/// # Ok::<(), freezeframe_unwind::images::ImagesError>(())
/// ```
#[derive(Debug)]
pub struct Walker<'a, T> {
    pub(super) finder: Finder<'a, T>,
    pub(super) pac: PacMask,
    pub(super) high: u64,
    pub(super) registers: WalkRegisters,
    /// The frame that the walk has come to, stripped; its caller is next.
    pub(super) address: FrameAddress,
    /// Where the thread stands, raw, until that was told.
    first: Option<FrameAddress>,
    ended: Option<StopReason>,
    lacked_register: bool,
    pub(super) steps_left: u32,
    /// How often the walk may still go from a signal's stack to one that lies below.
    ways_down_left: u8,
}

/// No real stack has more frames: 16 MiB of the smallest possible ones.
const STEPS: u32 = 1 << 20;
/// A thread has one alternate stack; with the stacks of coroutines it may be a few. Contexts that lead to each other end here.
const WAYS_DOWN: u8 = 16;
/// The DWARF number of x86_64's frame pointer.
const RBP: u16 = 6;

impl<'a, T: Memory> Walker<'a, T> {
    /// A walk from `registers` outward, inside `bounds`, by the unwind tables of `images`, which are read from `tables`:
    /// this process's memory, or a file's. Code without tables is left by the frame pointer.
    ///
    /// # Signal safety
    /// Safe if `tables` is.
    #[inline]
    pub fn new(
        registers: &Registers,
        bounds: StackBounds,
        pac: PacMask,
        images: &'a ImageTable,
        tables: T,
        context: &'a mut WalkContext,
    ) -> Self {
        context.keep_for(images);
        Self {
            finder: Finder { images, memory: tables, context },
            pac,
            high: bounds.high,
            registers: WalkRegisters::new(registers, KnownRegisters::ALL),
            address: FrameAddress::InstructionPointer(pac.strip(registers.pc())),
            first: Some(FrameAddress::InstructionPointer(registers.pc())),
            ended: None,
            lacked_register: false,
            steps_left: STEPS,
            ways_down_left: WAYS_DOWN,
        }
    }

    /// The same walk, where only these of the `registers` that it begins with are known: sp and pc must be. A register
    /// becomes known again in the caller of a frame that has saved it.
    ///
    /// # Signal safety
    /// Safe.
    pub fn knowing(mut self, registers: &Registers, known: KnownRegisters) -> Self {
        self.registers.set(registers, known);
        self
    }

    /// Whether a frame could not be left by its tables, because they name a register that is not known there: what
    /// came after it was led by frame pointers.
    ///
    /// # Signal safety
    /// Safe.
    pub const fn lacked_register(&self) -> bool {
        self.lacked_register
    }

    #[inline]
    fn step<M: Memory>(&mut self, memory: &mut M) -> Result<Frame, StopReason> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(StopReason::Limit)?;
        let callee = self.registers.sp();
        // Stopped at an instruction, not at a call.
        let stands = !matches!(self.address, FrameAddress::ReturnAddress(_));
        let (raw, trust) = self.leave(memory)?;
        let address = raw.with(self.pac.strip(raw.raw()));
        if let FrameAddress::ReturnAddress(pc) = address
            && !self.finder.is_code(address)
        {
            return Err(StopReason::NotCode(pc));
        }
        let sp = self.registers.sp();
        match address {
            // Where a signal interrupted can be on another stack, and anywhere: the fault may be a call to no code.
            FrameAddress::SignalReturn(_) if sp > callee => {}
            FrameAddress::SignalReturn(_) => {
                let left = self.ways_down_left.checked_sub(1);
                self.ways_down_left = left.ok_or(StopReason::NotAscending(sp))?;
            }
            // A leaf of arm64 need not have moved the stack pointer. Its return address may even be where it stands: at
            // its beginning, called by the last instruction of the function before it, which gets nothing back.
            _ if stands && sp == callee => {}
            _ if sp <= callee => return Err(StopReason::NotAscending(sp)),
            _ if sp > self.high => return Err(StopReason::OutOfBounds(sp)),
            _ => {}
        }
        self.address = address;
        Ok(Frame { address: raw, sp, trust })
    }

    /// Goes to the caller, and returns its address, raw, with its source.
    #[inline]
    fn leave<M: Memory>(&mut self, memory: &mut M) -> Result<(FrameAddress, Trust), StopReason> {
        let registers = &mut self.registers;
        let found = match self.finder.find(registers.architecture(), self.address) {
            Ok(found) => found,
            Err(stop) if !matches!(self.address, FrameAddress::ReturnAddress(_)) => {
                return self.leave_what_is_no_code(memory, stop);
            }
            Err(stop) => return Err(stop),
        };
        match found {
            // From the instructions ahead in code without tables: taken only if it leads to a caller.
            Found::Rule(Rule::Saved(rule))
                if matches!(rule.trust(), Trust::FramePointer | Trust::LinkRegister) =>
            {
                match self.leave_if_called(memory, &rule) {
                    Some(pc) => Ok((FrameAddress::ReturnAddress(pc), rule.trust())),
                    None => self.leave_code_without_tables(memory),
                }
            }
            Found::Rule(Rule::Saved(rule)) => match registers.apply_saved(memory, &rule) {
                // Compact unwind information has no other way to say that a stack ends.
                Ok(0) if rule.trust() == Trust::Compact => Err(StopReason::EndOfStack),
                Ok(pc) => Ok((FrameAddress::ReturnAddress(pc), rule.trust())),
                Err(RuleError::Unreadable(_))
                    if rule.trust() == Trust::Compact && registers.hangs_on_null(memory, &rule) =>
                {
                    Err(StopReason::EndOfStack)
                }
                // Behind code without tables not every register is known; the frame pointer is. A null one is no end
                // here: the tables know of a caller.
                Err(RuleError::UnknownRegister(register)) => {
                    if let Some(pc) = self.leave_by_epilogue(memory, register, &rule) {
                        return Ok((FrameAddress::ReturnAddress(pc), rule.trust()));
                    }
                    self.lacked_register = true;
                    self.leave_by_frame_pointer(memory).map_err(|stop| match stop {
                        StopReason::EndOfStack => StopReason::NoRule(self.address.raw()),
                        stop => stop,
                    })
                }
                Err(error) => Err(stop(error, self.address)),
            },
            Found::Rule(Rule::End) => Err(StopReason::EndOfStack),
            Found::Rule(Rule::FramePointer) => self.leave_code_without_tables(memory),
            Found::Nothing => self.leave_by_registers(memory),
            Found::Row => {
                let (values, known) = registers.fetch(memory);
                let caller = self.finder.apply_row(memory, &values, known);
                self.lacked_register |= matches!(caller, Err(RuleError::UnknownRegister(_)));
                let caller = caller.map_err(|error| stop(error, self.address))?;
                let pc = caller.return_address.ok_or(StopReason::EndOfStack)?;
                if caller.signal_frame {
                    registers.set(&caller.registers, caller.known);
                    return Ok((FrameAddress::SignalReturn(pc), Trust::Cfi));
                }
                let preserved = KnownRegisters::preserved(values.architecture());
                registers.set(&caller.registers, caller.known.and(preserved));
                Ok((FrameAddress::ReturnAddress(pc), Trust::Cfi))
            }
            Found::SignalReturn => {
                let (architecture, sp) = (registers.architecture(), registers.sp());
                let found = interrupted(memory, architecture, sp).ok_or(StopReason::Unreadable(sp))?;
                registers.set(&found, KnownRegisters::ALL);
                Ok((FrameAddress::SignalReturn(found.pc()), Trust::Context))
            }
        }
    }

    /// Code of which nothing is known: by the frame pointer. On arm64 the innermost function may not have made its frame
    /// record yet, or make none: then its caller is in the link register. Unless that is where the thread stands: then a
    /// call has just returned.
    fn leave_by_registers<M: Memory>(&mut self, memory: &mut M) -> Result<(FrameAddress, Trust), StopReason> {
        if let Some(lr) = self.registers.lr()
            && !matches!(self.address, FrameAddress::ReturnAddress(_))
            && self.pac.strip(lr) != self.address.raw()
            && self.is_caller(lr)
        {
            let fp = self.registers.fp(memory).unwrap_or(0);
            let saved =
                fp.checked_add(8).and_then(|slot| memory.read_u64(slot)).map(|saved| self.pac.strip(saved));
            if saved != Some(self.pac.strip(lr)) {
                self.registers.leave_by_link_register();
                return Ok((FrameAddress::ReturnAddress(lr), Trust::LinkRegister));
            }
        }
        self.leave_by_frame_pointer(memory)
    }

    /// Where a thread stands in code without tables, its function may have no frame: on x86_64 the instructions to its
    /// return may say how far above the stack pointer the return address lies.
    fn leave_code_without_tables<M: Memory>(
        &mut self,
        memory: &mut M,
    ) -> Result<(FrameAddress, Trust), StopReason> {
        let stands = !matches!(self.address, FrameAddress::ReturnAddress(_));
        if stands
            && self.registers.architecture() == Architecture::X86_64
            && let Some(rule) = self.finder.rule_to_return(self.address.raw())
            && let Some(pc) = self.leave_if_called(memory, &rule)
        {
            return Ok((FrameAddress::ReturnAddress(pc), Trust::Scan));
        }
        self.leave_by_frame_pointer(memory)
    }

    /// Goes to the caller by a rule that may be wrong, if a call was there: what is behind the child's first instructions
    /// in `clone`, or a program's first ones, has no caller. Nothing changes otherwise.
    fn leave_if_called<M: Memory>(&mut self, memory: &mut M, rule: &SavedRule) -> Option<u64> {
        let mut registers = self.registers.clone();
        let pc = registers.apply_saved(memory, rule).ok()?;
        let called = match registers.architecture() {
            Architecture::X86_64 => self.finder.follows_call(pc),
            // Where the thread stands: a call has just returned there.
            Architecture::Arm64 => rule.return_place != 0 || self.pac.strip(pc) != self.address.raw(),
        };
        if registers.sp() > self.high || !self.is_caller(pc) || !called {
            return None;
        }
        self.registers = registers;
        Some(pc)
    }

    /// Goes to the caller by a rule that needs the frame pointer, which is not known but may lie at a fixed distance from
    /// the stack pointer. It does where a call or a system call was made: elsewhere the frame may be half made, or half
    /// given up. Nothing changes if that does not lead to a caller.
    fn leave_by_epilogue<M: Memory>(
        &mut self,
        memory: &mut M,
        register: u16,
        rule: &SavedRule,
    ) -> Option<u64> {
        if self.registers.architecture() != Architecture::X86_64 || register != RBP {
            return None;
        }
        let calls = matches!(self.address, FrameAddress::ReturnAddress(_));
        if !calls && !self.finder.follows_system_call(self.address.raw()) {
            return None;
        }
        let distance = self.finder.frame_pointer_above_stack_pointer(self.address, rule)?;
        let before = self.registers.clone();
        self.registers.suppose_frame_pointer(before.sp().checked_add(distance)?);
        let pc = self.leave_if_called(memory, rule);
        if pc.is_none() {
            self.registers = before;
        }
        pc
    }

    fn leave_by_frame_pointer<M: Memory>(
        &mut self,
        memory: &mut M,
    ) -> Result<(FrameAddress, Trust), StopReason> {
        let pc = self.registers.apply_frame_pointer(memory, self.high).map_err(|stop| match stop {
            StopReason::NoRule(_) => StopReason::NoRule(self.address.raw()),
            stop => stop,
        })?;
        Ok((FrameAddress::ReturnAddress(pc), Trust::FramePointer))
    }

    /// A thread that was sent to an address without code by a call through a bad pointer: the call has done nothing but
    /// leave its return address.
    fn leave_what_is_no_code<M: Memory>(
        &mut self,
        memory: &mut M,
        stop: StopReason,
    ) -> Result<(FrameAddress, Trust), StopReason> {
        if self.registers.architecture() == Architecture::Arm64 {
            let lr = self.registers.lr().filter(|lr| self.is_caller(*lr)).ok_or(stop)?;
            self.registers.leave_by_link_register();
            return Ok((FrameAddress::ReturnAddress(lr), Trust::LinkRegister));
        }
        let pc = memory.read_u64(self.registers.sp()).filter(|pc| self.is_caller(*pc)).ok_or(stop)?;
        self.registers.pop();
        Ok((FrameAddress::ReturnAddress(pc), Trust::Scan))
    }

    fn is_caller(&self, pc: u64) -> bool {
        self.finder.is_code(FrameAddress::ReturnAddress(self.pac.strip(pc)))
    }
}

impl<T: Memory> Walk for Walker<'_, T> {
    fn pac(&self) -> PacMask {
        self.pac
    }

    #[inline]
    fn next<M: Memory>(&mut self, memory: &mut M) -> Result<Frame, StopReason> {
        if let Some(address) = self.first.take() {
            return Ok(Frame { address, sp: self.registers.sp(), trust: Trust::Context });
        }
        if let Some(stop) = self.ended {
            return Err(stop);
        }
        let result = self.step(memory);
        if let Err(stop) = result {
            self.ended = Some(stop);
        }
        result
    }

    fn fill<M: Memory>(&mut self, memory: &mut M, frames: &mut [Frame]) -> (usize, Result<(), StopReason>) {
        let mut filled = 0usize;
        while let Some([slot, rest @ ..]) = frames.get_mut(filled..) {
            match self.next(memory) {
                Ok(frame) => *slot = frame,
                Err(stop) => return (filled, Err(stop)),
            }
            filled = filled.saturating_add(1).saturating_add(self.hurry(memory, rest));
        }
        (filled, Ok(()))
    }
}

fn stop(error: RuleError, address: FrameAddress) -> StopReason {
    match error {
        RuleError::Unreadable(place) => StopReason::Unreadable(place),
        _ => StopReason::NoRule(address.raw()),
    }
}

#[cfg(test)]
mod tests;
