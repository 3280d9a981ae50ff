//! The calls that are going on, known from the instructions alone.

use super::trace::Instant;
use freezeframe_arch::{Architecture, Registers};
use freezeframe_unwind::memory::Memory;
use std::fmt;

/// What an instruction does to the flow of control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// A call: bl, blr and their signed kin; call.
    Call,
    /// A return: ret and its signed kin, br x30; ret.
    Return,
    /// A jump to where a register or memory says: a call in tail position, a switch, or out of many frames at once.
    IndirectJump,
    /// Anything else.
    Other,
}

impl Transfer {
    /// Looks at the instruction that `code` begins with.
    pub fn of(architecture: Architecture, code: &[u8]) -> Self {
        match architecture {
            Architecture::Arm64 => code.first_chunk().map_or(Self::Other, |code| Self::of_arm64(*code)),
            Architecture::X86_64 => Self::of_x86_64(code),
        }
    }

    /// Source: Arm ARM, C4.1, "Unconditional branch (register)" and "(immediate)".
    fn of_arm64(code: [u8; 4]) -> Self {
        let word = u32::from_le_bytes(code);
        let by_register = word >> 25 == 0b110_1011;
        match (by_register, word >> 21 & 0b1111) {
            _ if word >> 26 == 0b10_0101 => Self::Call,
            // 8 and 9 check a signature first.
            (true, 1 | 9) => Self::Call,
            (true, 2) => Self::Return,
            (true, 0) if word >> 5 & 31 == 30 => Self::Return,
            (true, 0 | 8) => Self::IndirectJump,
            _ => Self::Other,
        }
    }

    /// Source: Intel SDM, volume 2, CALL, JMP and RET; prefixes that change neither come before.
    fn of_x86_64(code: &[u8]) -> Self {
        let prefix = |byte: &u8| matches!(byte, 0x3e | 0x40..=0x4f | 0x66 | 0xf2 | 0xf3);
        let mut opcode = code.iter().skip_while(|byte| prefix(byte));
        match (opcode.next(), opcode.next()) {
            (Some(0xe8), _) => Self::Call,
            (Some(0xff), Some(operand)) if operand >> 3 & 7 == 2 => Self::Call,
            (Some(0xff), Some(operand)) if operand >> 3 & 7 == 4 => Self::IndirectJump,
            (Some(0xc3 | 0xc2), _) => Self::Return,
            _ => Self::Other,
        }
    }
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Where it returns to.
    pub return_address: u64,
    /// The caller's stack pointer after the return, which is its value before the call.
    pub sp: u64,
}

/// A return that goes somewhere else than behind its call: the shadow stack does not understand this code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Where it went.
    pub to: u64,
    /// The call that it should have returned from.
    pub call: Option<Call>,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a return to {:#x}, not from {:x?}", self.to, self.call)
    }
}

/// Where a thread stands: its program counter, its stack pointer, and the beginning of the function that it is in.
#[derive(Clone, Copy, Debug)]
struct Place {
    pc: u64,
    sp: u64,
    function: u64,
}

/// Follows calls and returns.
#[derive(Clone, Debug, Default)]
pub struct ShadowStack {
    calls: Vec<Call>,
    /// For each call, the function that it stands in.
    callers: Vec<u64>,
    /// What the last instruction was about to do, and where.
    last: Option<(Transfer, Place)>,
}

impl ShadowStack {
    /// The calls that are going on before the instruction of `instant`, outermost first. `code` begins with that
    /// instruction, and `function` is where the function begins that it is in.
    ///
    /// # Errors
    /// If a return goes nowhere.
    pub fn advance(&mut self, instant: &Instant<'_>, function: u64, code: &[u8]) -> Result<&[Call], Lost> {
        let registers = &instant.registers;
        let place = Place { pc: registers.pc(), sp: registers.sp(), function };
        match self.last {
            Some((Transfer::Call, from)) => {
                let mut stack = instant.stack;
                let return_address = match registers {
                    Registers::Arm64(_) => from.pc + 4,
                    Registers::X86_64(_) => stack.read_u64(place.sp).unwrap_or(0),
                };
                self.calls.push(Call { return_address, sp: from.sp });
                self.callers.push(from.function);
            }
            Some((Transfer::Return, _)) => {
                let call = self.pop();
                if call.is_none_or(|call| (call.return_address, call.sp) != (place.pc, place.sp)) {
                    return Err(Lost { to: place.pc, call });
                }
            }
            Some((Transfer::IndirectJump, from)) if place.is_middle_of_another_than(from) => {
                while self.callers.last().is_some_and(|caller| *caller != function) {
                    self.pop();
                }
                self.pop();
            }
            Some((Transfer::IndirectJump | Transfer::Other, _)) | None => {}
        }
        self.last = Some((Transfer::of(registers.architecture(), code), place));
        Ok(&self.calls)
    }

    fn pop(&mut self) -> Option<Call> {
        self.callers.pop();
        self.calls.pop()
    }
}

impl Place {
    /// No call and no switch leads there: this is how longjmp comes back to the function that has called setjmp.
    fn is_middle_of_another_than(self, from: Self) -> bool {
        self.function != from.function && self.pc != self.function
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freezeframe_arch::{RegistersArm64, RegistersX86_64};
    use freezeframe_unwind::memory::SliceMemory;

    fn arm64(word: u32) -> Transfer {
        Transfer::of(Architecture::Arm64, &word.to_le_bytes())
    }

    #[test]
    fn calls_and_returns_of_arm64_are_told_from_jumps() {
        // bl; blr x8; blraaz x8; blraa x8, x9; blrab x8, x9
        for word in [0x9400_0001, 0xd63f_0100, 0xd63f_091f, 0xd73f_0909, 0xd73f_0d09] {
            assert_eq!(arm64(word), Transfer::Call, "{word:#x}");
        }
        // ret; ret x8; retaa; retab; br x30
        for word in [0xd65f_03c0, 0xd65f_0100, 0xd65f_0bff, 0xd65f_0fff, 0xd61f_03c0] {
            assert_eq!(arm64(word), Transfer::Return, "{word:#x}");
        }
        // br x8; braaz x8; braa x8, x9
        for word in [0xd61f_0100, 0xd61f_091f, 0xd71f_0909] {
            assert_eq!(arm64(word), Transfer::IndirectJump, "{word:#x}");
        }
        // b; b.eq; cbz; svc; paciasp; eret
        for word in [0x1400_0001, 0x5400_0040, 0xb400_0040, 0xd400_0001, 0xd503_233f, 0xd69f_03e0] {
            assert_eq!(arm64(word), Transfer::Other, "{word:#x}");
        }
    }

    #[test]
    fn calls_and_returns_of_x86_64_are_told_from_jumps() {
        let each = |transfer, codes: &[&[u8]]| {
            for code in codes {
                assert_eq!(Transfer::of(Architecture::X86_64, code), transfer, "{code:x?}");
            }
        };
        // call; call rax; call r8; call [rbx + 8]; notrack call rax
        let calls: [&[u8]; 5] =
            [&[0xe8, 1, 0, 0, 0], &[0xff, 0xd0], &[0x41, 0xff, 0xd0], &[0xff, 0x53, 8], &[0x3e, 0xff, 0xd0]];
        each(Transfer::Call, &calls);
        // ret; rep ret; ret 8
        each(Transfer::Return, &[&[0xc3], &[0xf3, 0xc3], &[0xc2, 8, 0]]);
        // jmp rax; notrack jmp rax; jmp [rdi]
        each(Transfer::IndirectJump, &[&[0xff, 0xe0], &[0x3e, 0xff, 0xe0], &[0xff, 0x27]]);
        // jmp; push [rax]; inc eax; leave; nothing
        each(Transfer::Other, &[&[0xe9, 1, 0, 0, 0], &[0xff, 0x30], &[0xff, 0xc0], &[0xc9], &[]]);
    }

    /// Plays (pc, sp, instruction) of arm64, whose functions begin at the hundreds, and returns how many calls there
    /// were at each.
    fn depths(steps: &[(u64, u64, u32)]) -> Result<Vec<usize>, Lost> {
        let mut shadow = ShadowStack::default();
        let step = |(pc, sp, word): &(u64, u64, u32)| {
            let registers = Registers::Arm64(RegistersArm64 { pc: *pc, sp: *sp, ..Default::default() });
            let instant = Instant { registers, stack: SliceMemory::new(0, &[]) };
            Ok(shadow.advance(&instant, pc / 100 * 100, &word.to_le_bytes())?.len())
        };
        steps.iter().map(step).collect()
    }

    const BL: u32 = 0x9400_0001;
    const B: u32 = 0x1400_0001;
    const BR: u32 = 0xd61f_0100;
    const RET: u32 = 0xd65f_03c0;
    const NOP: u32 = 0xd503_201f;

    #[test]
    fn a_tail_call_returns_to_the_caller_of_its_caller() {
        let steps =
            [(0, 96, BL), (100, 96, NOP), (104, 80, BL), (200, 80, B), (300, 80, RET), (108, 80, NOP)];
        assert_eq!(depths(&steps).unwrap(), [0, 1, 1, 2, 2, 1]);
    }

    #[test]
    fn a_jump_over_frames_leaves_them() {
        let steps =
            [(0, 96, BL), (100, 96, BL), (200, 80, BL), (300, 64, NOP), (304, 80, BR), (108, 80, NOP)];
        assert_eq!(depths(&steps).unwrap(), [0, 1, 2, 3, 3, 1]);
    }

    #[test]
    fn a_switch_and_an_indirect_tail_call_are_no_jumps_over_frames() {
        let steps = [(0, 96, BL), (100, 96, BR), (140, 96, BR), (200, 96, RET), (4, 96, NOP)];
        assert_eq!(depths(&steps).unwrap(), [0, 1, 1, 1, 0]);
    }

    #[test]
    fn a_return_to_elsewhere_is_an_error() {
        let call = Some(Call { return_address: 4, sp: 96 });
        assert_eq!(depths(&[(0, 96, BL), (100, 96, RET), (8, 96, NOP)]), Err(Lost { to: 8, call }));
        assert_eq!(depths(&[(0, 96, BL), (100, 96, RET), (4, 80, NOP)]), Err(Lost { to: 4, call }));
        assert_eq!(depths(&[(0, 96, RET), (4, 96, NOP)]), Err(Lost { to: 4, call: None }));
    }

    #[test]
    fn a_call_of_x86_64_returns_to_what_it_has_pushed() {
        let mut shadow = ShadowStack::default();
        let mut stack = [0; 16];
        let at = |rip, rsp| Registers::X86_64(RegistersX86_64 { rip, rsp, ..Default::default() });
        let instant = Instant { registers: at(0x10, 0x1010), stack: SliceMemory::new(0x1000, &stack) };
        shadow.advance(&instant, 0, &[0xff, 0xd0]).unwrap();
        stack[8] = 0x12;
        let instant = Instant { registers: at(0x80, 0x1008), stack: SliceMemory::new(0x1000, &stack) };
        assert_eq!(
            shadow.advance(&instant, 0, &[0xc3]),
            Ok(&[Call { return_address: 0x12, sp: 0x1010 }][..])
        );
        let instant = Instant { registers: at(0x12, 0x1010), stack: SliceMemory::new(0x1000, &stack) };
        assert_eq!(shadow.advance(&instant, 0, &[0x90]), Ok(&[][..]));
    }
}
