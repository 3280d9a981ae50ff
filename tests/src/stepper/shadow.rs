//! The shadow call stack: what the stack must be, told by the instructions that were executed and by nothing else.

use freezeframe_arch::RegistersX86_64;
use freezeframe_unwind::images::Range;
use freezeframe_unwind::memory::Memory;
use freezeframe_unwind::rule::FrameAddress;

/// What an instruction does to the stack of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Pushes a return address.
    Call,
    /// Pops one.
    Return,
    /// Asks the kernel, which may return from a signal.
    Syscall,
    /// None of these. It may still move the stack pointer over frames, or switch stacks.
    Other,
}

impl Instruction {
    /// The instruction that `code` begins with (Intel SDM volume 2, chapter 2.1 for the prefixes).
    pub fn decode(code: &[u8]) -> Self {
        let is_prefix = |byte: &u8| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf2 | 0xf3);
        let prefixes = code.iter().take_while(|byte| is_prefix(byte)).count();
        let code = &code[prefixes..];
        let code = if code.first().is_some_and(|rex| rex & 0xf0 == 0x40) { &code[1..] } else { code };
        match code {
            [0xe8, ..] => Self::Call,
            // Opcode extension 2 in the ModR/M byte.
            [0xff, modrm, ..] if modrm >> 3 & 7 == 2 => Self::Call,
            [0xc3 | 0xc2, ..] => Self::Return,
            [0x0f, 0x05, ..] => Self::Syscall,
            _ => Self::Other,
        }
    }
}

/// One caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it goes on.
    pub address: FrameAddress,
    /// The stack pointer that it goes on with.
    pub sp: u64,
    /// Its frame pointer, which whoever it called must preserve.
    pub rbp: u64,
    alternate: bool,
}

impl Entry {
    /// Where the return address lies.
    fn slot(&self) -> u64 {
        self.sp - 8
    }
}

/// The callers of the current function, outermost first.
#[derive(Debug, Default)]
pub struct Shadow {
    entries: Vec<Entry>,
    /// The alternate signal stack.
    alternate: Range,
    /// How many returns went elsewhere than their call came from.
    pub odd_returns: u64,
    /// The stack pointer has risen over frames, and the jump out of the code that did it is still to come.
    rising: bool,
}

const SYS_RT_SIGRETURN: u64 = libc::SYS_rt_sigreturn as u64;
const SYS_SIGALTSTACK: u64 = libc::SYS_sigaltstack as u64;

impl Shadow {
    /// The callers, innermost first.
    pub fn callers(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().rev()
    }

    /// How many callers there are.
    pub fn depth(&self) -> usize {
        self.entries.len()
    }

    /// An instruction was executed between two register files. Returns whether it has jumped over frames: landed an
    /// exception, or a longjmp.
    pub fn executed<M: Memory>(
        &mut self,
        instruction: Instruction,
        before: &RegistersX86_64,
        after: &RegistersX86_64,
        memory: &mut M,
    ) -> bool {
        match instruction {
            Instruction::Call => {
                let pushed = memory.read_u64(after.rsp).unwrap_or(0);
                self.push(FrameAddress::ReturnAddress(pushed), after.rsp + 8, before.rbp);
                return false;
            }
            Instruction::Return => {
                let expected = self.entries.last().map(|top| (top.address.raw(), top.slot()));
                self.odd_returns += u64::from(expected != Some((after.rip, before.rsp)));
            }
            Instruction::Syscall if before.rax == SYS_RT_SIGRETURN => self.pop_signal(),
            Instruction::Syscall if before.rax == SYS_SIGALTSTACK && before.rdi != 0 && after.rax == 0 => {
                let word = |n, memory: &mut M| memory.read_u64(before.rdi + n).unwrap_or(0);
                let start = word(0, memory);
                self.alternate = Range { start, end: start + word(16, memory) };
            }
            Instruction::Syscall | Instruction::Other => {}
        }
        let left = self.leave_below(after.rsp);
        let longest_instruction = 15;
        let jumped = after.rip.wrapping_sub(before.rip) > longest_instruction;
        self.rising |= left && instruction == Instruction::Other;
        jumped && std::mem::take(&mut self.rising)
    }

    /// A signal's handler was entered: the kernel has pushed the address of the code that returns from it.
    pub fn signalled<M: Memory>(
        &mut self,
        before: &RegistersX86_64,
        after: &RegistersX86_64,
        memory: &mut M,
    ) {
        self.push(FrameAddress::SignalReturn(before.rip), before.rsp, before.rbp);
        let restorer = memory.read_u64(after.rsp).unwrap_or(0);
        self.push(FrameAddress::ReturnAddress(restorer), after.rsp + 8, after.rbp);
    }

    /// Takes over the return addresses that the program itself has overwritten, as the landing of an exception does, and
    /// says whether there were any: what a return will do is what memory holds.
    pub fn rewritten<M: Memory>(&mut self, memory: &mut M) -> bool {
        let mut any = false;
        for entry in &mut self.entries {
            let now = memory.read_u64(entry.slot());
            if let (FrameAddress::ReturnAddress(then), Some(now)) = (entry.address, now)
                && then != now
            {
                entry.address = FrameAddress::ReturnAddress(now);
                any = true;
            }
        }
        any
    }

    fn push(&mut self, address: FrameAddress, sp: u64, rbp: u64) {
        self.entries.push(Entry { address, sp, rbp, alternate: self.is_alternate(sp) });
    }

    fn pop_signal(&mut self) {
        while let Some(entry) = self.entries.pop() {
            if matches!(entry.address, FrameAddress::SignalReturn(_)) {
                return;
            }
        }
    }

    /// Frames that the stack pointer has risen above are gone, and so is an alternate stack that was left. Returns
    /// whether there were any.
    fn leave_below(&mut self, sp: u64) -> bool {
        let here = self.is_alternate(sp);
        let depth = self.entries.len();
        while let Some(top) = self.entries.last() {
            let gone = if top.alternate == here { top.sp <= sp } else { top.alternate };
            if !gone {
                break;
            }
            self.entries.pop();
        }
        self.entries.len() < depth
    }

    fn is_alternate(&self, sp: u64) -> bool {
        self.alternate.start < sp && sp <= self.alternate.end
    }
}
