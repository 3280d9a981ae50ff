//! The walk: one step at a time, from a thread's registers outward.

use super::context::{Finder, Found, WalkContext};
use super::registers::WalkRegisters;
use super::signal::interrupted;
use super::{Frame, StopReason};
use crate::images::ImageTable;
use crate::memory::Memory;
use crate::rule::{FrameAddress, KnownRegisters, Rule, RuleError, StackBounds, Trust};
use freezeframe_arch::{PacMask, Registers};

/// Walks a stack: by unwind tables and frame pointers, or by frame pointers alone.
///
/// Each frame must lie strictly above the last one and inside the bounds, and each return address in code, if it is
/// known where code is: else the walk ends, with the reason. So it always ends, and does not invent frames.
///
/// ```
/// use freezeframe_arch::{PacMask, Registers, RegistersX86_64};
/// use freezeframe_unwind::memory::SliceMemory;
/// use freezeframe_unwind::rule::StackBounds;
/// use freezeframe_unwind::walk::{StopReason, Walker};
///
/// // One frame record at 0x1000: the end of the chain, and a return address.
/// let mut memory = SliceMemory::new(0x1000, &[0, 0, 0, 0, 0, 0, 0, 0, 0x34, 0x12, 0, 0, 0, 0, 0, 0]);
/// let registers = RegistersX86_64 { rip: 0x5000, rsp: 0xff0, rbp: 0x1000, ..Default::default() };
/// let bounds = StackBounds::above(0xff0);
/// let mut walker = Walker::by_frame_pointers(&Registers::X86_64(registers), bounds, PacMask::NONE);
/// assert_eq!(walker.next(&mut memory).map(|frame| frame.address.raw()), Ok(0x5000));
/// assert_eq!(walker.next(&mut memory).map(|frame| frame.address.raw()), Ok(0x1234));
/// assert_eq!(walker.next(&mut memory), Err(StopReason::EndOfStack));
/// ```
#[derive(Debug)]
pub struct Walker<'a, T = NoTables> {
    finder: Option<Finder<'a, T>>,
    pac: PacMask,
    high: u64,
    registers: WalkRegisters,
    /// The frame that the walk has come to, stripped; its caller is next.
    address: FrameAddress,
    started: bool,
    ended: Option<StopReason>,
    steps_left: u32,
}

/// The tables' memory of a walk that uses none.
#[derive(Clone, Copy, Debug)]
pub struct NoTables;

impl Memory for NoTables {
    fn read(&mut self, _address: u64, _out: &mut [u8]) -> usize {
        0
    }
}

/// No real stack has more frames: 16 MiB of the smallest possible ones.
const STEPS: u32 = 1 << 20;

impl<'a> Walker<'a> {
    /// A walk from `registers` outward by frame pointers alone, inside `bounds`. It loses callers in functions that have
    /// none, or have not set theirs up yet.
    ///
    /// # Signal safety
    /// Safe, as is every method of this type.
    pub fn by_frame_pointers(registers: &Registers, bounds: StackBounds, pac: PacMask) -> Self {
        Self::start(registers, bounds, pac, None)
    }
}

impl<'a, T: Memory> Walker<'a, T> {
    /// A walk from `registers` outward, inside `bounds`, by the unwind tables of `images`, which are read from `tables`:
    /// this process's memory, or a file's. Code without tables is left by the frame pointer.
    ///
    /// # Signal safety
    /// Safe if `tables` is.
    pub fn new(
        registers: &Registers,
        bounds: StackBounds,
        pac: PacMask,
        images: &'a ImageTable,
        tables: T,
        context: &'a mut WalkContext,
    ) -> Self {
        context.keep_for(images);
        Self::start(registers, bounds, pac, Some(Finder { images, memory: tables, context }))
    }

    fn start(
        registers: &Registers,
        bounds: StackBounds,
        pac: PacMask,
        finder: Option<Finder<'a, T>>,
    ) -> Self {
        Self {
            finder,
            pac,
            high: bounds.high,
            registers: WalkRegisters::new(registers),
            address: FrameAddress::InstructionPointer(registers.pc()),
            started: false,
            ended: None,
            steps_left: STEPS,
        }
    }

    /// Which bits of return addresses hold authentication codes.
    pub(super) const fn pac(&self) -> PacMask {
        self.pac
    }

    /// The next frame outward.
    ///
    /// # Errors
    /// Why the walk has ended. A walk that has ended stays so.
    #[inline]
    pub fn next<M: Memory>(&mut self, memory: &mut M) -> Result<Frame, StopReason> {
        if !self.started {
            self.started = true;
            return Ok(Frame { address: self.address, sp: self.registers.sp(), trust: Trust::Context });
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

    #[inline]
    fn step<M: Memory>(&mut self, memory: &mut M) -> Result<Frame, StopReason> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(StopReason::Limit)?;
        let callee = self.registers.sp();
        // Stopped at an instruction, not at a call.
        let interrupted = !matches!(self.address, FrameAddress::ReturnAddress(_));
        let (raw, trust) = self.leave(memory)?;
        let address = raw.with(self.pac.strip(raw.raw()));
        if let (FrameAddress::ReturnAddress(pc), Some(finder)) = (address, &self.finder)
            && !finder.is_code(address)
        {
            return Err(StopReason::NotCode(pc));
        }
        let sp = self.registers.sp();
        match address {
            // Where a signal interrupted can be on another stack, and anywhere: the fault may be a call to no code.
            FrameAddress::SignalReturn(_) => {}
            // A leaf of arm64 need not have moved the stack pointer, but it has gone somewhere else.
            _ if interrupted && sp == callee && address.raw() != self.address.raw() => {}
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
        let Some(finder) = &mut self.finder else {
            let pc = registers.apply_frame_pointer(memory, self.high)?;
            return Ok((FrameAddress::ReturnAddress(pc), Trust::FramePointer));
        };
        let found = match finder.find(registers.architecture(), self.address) {
            Ok(found) => found,
            Err(stop) if !matches!(self.address, FrameAddress::ReturnAddress(_)) => {
                return self.leave_what_is_no_code(memory, stop);
            }
            Err(stop) => return Err(stop),
        };
        match found {
            Found::Rule(Rule::Saved(rule)) => {
                let pc = registers.apply_saved(memory, &rule).map_err(|error| stop(error, self.address))?;
                Ok((FrameAddress::ReturnAddress(pc), Trust::Cfi))
            }
            Found::Rule(Rule::End) => Err(StopReason::EndOfStack),
            Found::Rule(Rule::FramePointer) => self.leave_without_tables(memory),
            Found::Row(row) => {
                let (values, known) = registers.fetch(memory);
                let caller = row.apply(memory, &values, known).map_err(|error| stop(error, self.address))?;
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

    /// Code without tables: by the frame pointer. On arm64 the innermost function may not have made its frame record
    /// yet, or make none: then its caller is in the link register.
    fn leave_without_tables<M: Memory>(
        &mut self,
        memory: &mut M,
    ) -> Result<(FrameAddress, Trust), StopReason> {
        if let Some(lr) = self.registers.lr()
            && !matches!(self.address, FrameAddress::ReturnAddress(_))
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
        if let Some(lr) = self.registers.lr() {
            if !self.is_caller(lr) {
                return Err(stop);
            }
            self.registers.leave_by_link_register();
            return Ok((FrameAddress::ReturnAddress(lr), Trust::LinkRegister));
        }
        let pc = memory.read_u64(self.registers.sp()).filter(|pc| self.is_caller(*pc)).ok_or(stop)?;
        self.registers.pop();
        Ok((FrameAddress::ReturnAddress(pc), Trust::Scan))
    }

    fn is_caller(&self, pc: u64) -> bool {
        let address = FrameAddress::ReturnAddress(self.pac.strip(pc));
        self.finder.as_ref().is_some_and(|finder| finder.is_code(address))
    }
}

fn stop(error: RuleError, address: FrameAddress) -> StopReason {
    match error {
        RuleError::Unreadable(place) => StopReason::Unreadable(place),
        _ => StopReason::NoRule(address.raw()),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::memory::SliceMemory;
    use freezeframe_arch::{RegistersArm64, RegistersX86_64};
    use std::vec::Vec;

    const BASE: u64 = 0x7000_0000;

    /// A stack of words from `BASE` on.
    fn stack(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn x86(fp: u64) -> Registers {
        Registers::X86_64(RegistersX86_64 { rip: 0x10_0000, rsp: BASE, rbp: fp, ..Default::default() })
    }

    fn walk(registers: Registers, bytes: &[u8], high: u64, pac: PacMask) -> (Vec<u64>, StopReason) {
        let mut memory = SliceMemory::new(BASE, bytes);
        let mut walker =
            Walker::by_frame_pointers(&registers, StackBounds { low: registers.sp(), high }, pac);
        let mut frames = Vec::new();
        loop {
            match walker.next(&mut memory) {
                Ok(frame) => frames.push(frame.address.raw()),
                Err(stop) => {
                    assert_eq!(walker.next(&mut memory), Err(stop), "an ended walk stays ended");
                    return (frames, stop);
                }
            }
        }
    }

    fn walk_x86(fp: u64, words: &[u64]) -> (Vec<u64>, StopReason) {
        walk(x86(fp), &stack(words), u64::MAX, PacMask::NONE)
    }

    #[test]
    fn a_chain_is_followed_to_its_null_end() {
        let words = [7, 7, BASE + 40, 0x20_0000, 7, BASE + 64, 0x30_0000, 7, 0, 0x40_0000];
        assert_eq!(
            walk_x86(BASE + 16, &words),
            (std::vec![0x10_0000, 0x20_0000, 0x30_0000, 0x40_0000], StopReason::EndOfStack)
        );
    }

    #[test]
    fn each_way_a_chain_can_break_has_its_reason() {
        let one = |next| walk_x86(BASE, &[next, 0x20_0000, 0, 0]);
        let two = std::vec![0x10_0000, 0x20_0000];
        assert_eq!(one(BASE), (two.clone(), StopReason::NotAscending(BASE)), "points to itself");
        assert_eq!(one(BASE + 8), (two.clone(), StopReason::NotAscending(BASE + 8)), "overlaps its callee");
        assert_eq!(one(BASE + 17), (two.clone(), StopReason::Misaligned(BASE + 17)));
        assert_eq!(one(BASE + 4096), (two.clone(), StopReason::Unreadable(BASE + 4096)));
        assert_eq!(one(BASE + 24), (two.clone(), StopReason::Unreadable(BASE + 32)), "half a record");
        assert_eq!(one(BASE + 16), (two, StopReason::NullReturnAddress));
        assert_eq!(walk_x86(0, &[]), (std::vec![0x10_0000], StopReason::EndOfStack));
        let below = BASE - 16;
        assert_eq!(walk_x86(below, &[]), (std::vec![0x10_0000], StopReason::NotAscending(below)), "below sp");
        let top = u64::MAX - 7;
        assert_eq!(
            walk_x86(top, &[]),
            (std::vec![0x10_0000], StopReason::OutOfBounds(top)),
            "must not overflow"
        );
    }

    #[test]
    fn the_stacks_end_bounds_the_chain_even_where_memory_goes_on() {
        let bytes = stack(&[BASE + 16, 0x20_0000, 0, 0x30_0000]);
        let (frames, stop) = walk(x86(BASE), &bytes, BASE + 31, PacMask::NONE);
        assert_eq!((frames.len(), stop), (2, StopReason::OutOfBounds(BASE + 16)));
        let (frames, stop) = walk(x86(BASE), &bytes, BASE + 32, PacMask::NONE);
        assert_eq!((frames.len(), stop), (3, StopReason::EndOfStack));
    }

    #[test]
    fn an_arm64_stack_is_walked_on_any_machine_and_keeps_its_raw_addresses() {
        let signed = 0x0031_0000_0020_0000;
        let bytes = stack(&[BASE + 16, signed, 0, 0x30_0000]);
        let mut registers = RegistersArm64 { pc: 0x10_0000, sp: BASE, ..Default::default() };
        registers.x[29] = BASE;
        let (frames, stop) =
            walk(Registers::Arm64(registers), &bytes, u64::MAX, PacMask::from_address_bits(48));
        assert_eq!((frames, stop), (std::vec![0x10_0000, signed, 0x30_0000], StopReason::EndOfStack));
    }
}
