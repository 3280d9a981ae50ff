//! The registers of the frame that a walk has come to, fetched only when a rule asks for them.

use super::StopReason;
use crate::memory::Memory;
use crate::rule::{
    FOLLOWED, FramePointer, KnownRegisters, RuleError, SavedRule, StackBounds, followed, followed_fp,
};
use freezeframe_arch::{Architecture, Registers, RegistersArm64, RegistersX86_64};

/// A register file of which the preserved registers may still lie where frames have saved them.
///
/// ```text
/// r = *place of r     if a frame on the way has saved it
/// r = word of r       as in the thread's registers, else, if it is known there
/// ```
#[derive(Clone, Debug)]
pub(super) struct WalkRegisters {
    architecture: Architecture,
    /// By DWARF number.
    words: [u64; Registers::MAX_WORDS],
    known: KnownRegisters,
    /// Addresses, for the registers of [`followed`]; zero: not saved.
    places: [u64; FOLLOWED],
    sp: u64,
}

/// The DWARF numbers of registers with a role.
struct Roles {
    fp: u16,
    sp: u16,
    lr: Option<u16>,
}

const fn roles(architecture: Architecture) -> Roles {
    match architecture {
        Architecture::X86_64 => Roles { fp: 6, sp: 7, lr: None },
        Architecture::Arm64 => Roles { fp: 29, sp: 31, lr: Some(30) },
    }
}

impl WalkRegisters {
    #[inline]
    pub(super) fn new(registers: &Registers, known: KnownRegisters) -> Self {
        let mut new = Self {
            architecture: registers.architecture(),
            words: [0; Registers::MAX_WORDS],
            known,
            places: [0; FOLLOWED],
            sp: 0,
        };
        new.set(registers, known);
        new
    }

    /// Every register anew.
    #[inline]
    pub(super) fn set(&mut self, registers: &Registers, known: KnownRegisters) {
        registers.copy_words(&mut self.words);
        (self.places, self.known, self.sp) = ([0; FOLLOWED], known, registers.sp());
    }

    pub(super) const fn architecture(&self) -> Architecture {
        self.architecture
    }

    pub(super) const fn sp(&self) -> u64 {
        self.sp
    }

    /// The link register, raw, while it is known: in the innermost frame, and where a signal interrupted.
    pub(super) fn lr(&self) -> Option<u64> {
        let lr = roles(self.architecture).lr.filter(|lr| self.known.contains(*lr))?;
        self.words.get(usize::from(lr)).copied()
    }

    /// The frame pointer, if it is known and can be fetched.
    #[inline]
    pub(super) fn fp<M: Memory>(&self, memory: &mut M) -> Result<u64, RuleError> {
        self.value(memory, roles(self.architecture).fp)
    }

    /// A register's value in this frame.
    #[inline]
    fn value<M: Memory>(&self, memory: &mut M, register: u16) -> Result<u64, RuleError> {
        let unknown = RuleError::UnknownRegister(register);
        let known = self.known.contains(register);
        if register == roles(self.architecture).sp {
            return if known { Ok(self.sp) } else { Err(unknown) };
        }
        let index = followed(self.architecture).iter().position(|other| *other == register);
        match index.and_then(|index| self.places.get(index)) {
            Some(place) if *place != 0 => memory.read_u64(*place).ok_or(RuleError::Unreadable(*place)),
            _ if known => self.words.get(usize::from(register)).copied().ok_or(unknown),
            _ => Err(unknown),
        }
    }

    /// Goes to the caller by a kept rule, and returns the return address, raw. Nothing changes if that fails.
    #[inline]
    pub(super) fn apply_saved<M: Memory>(
        &mut self,
        memory: &mut M,
        rule: &SavedRule,
    ) -> Result<u64, RuleError> {
        let base = self.value(memory, rule.cfa_register)?;
        let cfa = base.wrapping_add_signed(rule.cfa_offset.into());
        let address = |place| SavedRule::address_of(cfa, place);
        let pc = match (rule.return_place, roles(self.architecture).lr) {
            (0, Some(lr)) => self.value(memory, lr)?,
            (place, _) => {
                let slot = address(place);
                memory.read_u64(slot).ok_or(RuleError::Unreadable(slot))?
            }
        };
        for (to, place) in self.places.iter_mut().zip(&rule.places) {
            *to = if *place == 0 { *to } else { address(*place) };
        }
        self.sp = cfa;
        self.known =
            self.known.and(KnownRegisters::preserved(self.architecture)).with(roles(self.architecture).sp);
        Ok(pc)
    }

    /// Whether a rule finds the frame by the frame pointer, and that is null.
    pub(super) fn hangs_on_null<M: Memory>(&self, memory: &mut M, rule: &SavedRule) -> bool {
        rule.cfa_register == roles(self.architecture).fp && self.fp(memory) == Ok(0)
    }

    /// Goes to the caller by the frame pointer, and returns the return address, raw. Of the caller's registers only the
    /// frame pointer and, on x86_64, the stack pointer are known then.
    pub(super) fn apply_frame_pointer<M: Memory>(
        &mut self,
        memory: &mut M,
        high: u64,
    ) -> Result<u64, StopReason> {
        let fp = self.fp(memory).map_err(|error| match error {
            RuleError::Unreadable(address) => StopReason::Unreadable(address),
            _ => StopReason::NoRule(0),
        })?;
        let caller = FramePointer(fp).apply(memory, StackBounds { low: self.sp, high })?;
        let Roles { fp, sp, .. } = roles(self.architecture);
        self.places = [0; FOLLOWED];
        if let Some(word) = self.words.get_mut(usize::from(fp)) {
            *word = caller.fp.0;
        }
        self.sp = caller.sp;
        self.known = match self.architecture {
            Architecture::X86_64 => KnownRegisters::NONE.with(fp).with(sp),
            // There the record may lie anywhere in its frame: `sp` is only a lower bound.
            Architecture::Arm64 => KnownRegisters::NONE.with(fp),
        };
        Ok(caller.pc)
    }

    /// Takes `fp` for the frame pointer, which is not known.
    pub(super) fn suppose_frame_pointer(&mut self, fp: u64) {
        let register = roles(self.architecture).fp;
        if let Some(word) = self.words.get_mut(usize::from(register)) {
            *word = fp;
        }
        self.known = self.known.with(register);
    }

    /// Goes to the caller by the link register: the frame has saved nothing.
    pub(super) fn leave_by_link_register(&mut self) {
        self.known = self.known.and(KnownRegisters::preserved(self.architecture));
    }

    /// Goes to the caller as a return does: the return address was the top word of the stack (x86_64).
    pub(super) fn pop(&mut self) {
        self.sp = self.sp.wrapping_add(8);
        self.known = self.known.and(KnownRegisters::preserved(self.architecture));
    }

    /// The stack pointer and the frame pointer, if both are known and at hand.
    #[inline]
    pub(super) fn pointers<M: Memory>(&self, memory: &mut M) -> Option<(u64, u64)> {
        let sp = self.known.contains(roles(self.architecture).sp).then_some(self.sp)?;
        Some((sp, self.fp(memory).ok()?))
    }

    /// Goes to a caller of which these pointers are known, and what [`note_saved`](Self::note_saved) was told.
    #[inline]
    pub(super) fn go_to(&mut self, sp: u64, fp: u64) {
        self.sp = sp;
        if let Some(word) = self.words.get_mut(usize::from(roles(self.architecture).fp)) {
            *word = fp;
        }
        if let Some(place) = self.places.get_mut(followed_fp(self.architecture)) {
            *place = 0;
        }
        let fp = roles(self.architecture).fp;
        self.known = self.known.and(KnownRegisters::preserved(self.architecture)).with(fp);
    }

    /// Notes where a frame on the way has saved registers, other than the frame pointer: `which` has a bit for each of
    /// [`followed`].
    #[inline(never)]
    pub(super) fn note_saved(&mut self, rule: &SavedRule, which: u16, cfa: u64) {
        for (number, (to, place)) in self.places.iter_mut().zip(&rule.places).enumerate() {
            if which.wrapping_shr(number as u32) & 1 != 0 {
                *to = SavedRule::address_of(cfa, *place);
            }
        }
    }

    /// All registers as values, and which of them are known: what could not be fetched is not.
    pub(super) fn fetch<M: Memory>(&self, memory: &mut M) -> (Registers, KnownRegisters) {
        let mut words = self.words;
        let mut known = self.known;
        for register in followed(self.architecture) {
            match (self.value(memory, *register), words.get_mut(usize::from(*register))) {
                (Ok(value), Some(word)) => (*word, known) = (value, known.with(*register)),
                _ => known = known.without(*register),
            }
        }
        if let Some(word) = words.get_mut(usize::from(roles(self.architecture).sp)) {
            *word = self.sp;
        }
        let registers = match self.architecture {
            Architecture::X86_64 => {
                Registers::X86_64(RegistersX86_64::from_words(*words.first_chunk().unwrap_or(&[0; 18])))
            }
            Architecture::Arm64 => Registers::Arm64(RegistersArm64::from_words(words)),
        };
        (registers, known)
    }
}
