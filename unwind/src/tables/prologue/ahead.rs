//! Following the instructions ahead.

use super::step::{Access, Base, Step};
use super::{Frame, Position, arm64, x86_64};
use crate::memory::{Memory, Window};
use crate::rule::{FOLLOWED, SavedRule, Trust, followed};
use freezeframe_arch::Architecture;

/// How many instructions are followed. Epilogues of real code have about twenty, prologues too.
const STEPS: u32 = 128;
/// How many changes of the stack pointer are kept.
const LOWERINGS: usize = 8;

/// An address on the stack, by a register as it is at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) base: Base,
    pub(super) offset: i64,
}

impl Slot {
    const fn plus(self, offset: i64) -> Self {
        Self { base: self.base, offset: self.offset.wrapping_add(offset) }
    }
}

#[derive(Clone, Copy, Debug)]
struct Store {
    to: Slot,
    loaded: Option<Slot>,
}

/// How the instructions that were followed end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The function returns, or another one takes its place.
    Leaves,
    /// At something that is not followed.
    Open,
}

/// A way in which the stack pointer is lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lowering {
    /// A register that functions must preserve is pushed, by DWARF number (x86_64).
    Push(u16),
    /// By so many bytes.
    By(i64),
}

/// What the instructions ahead do to the stack.
#[derive(Clone, Debug)]
pub(super) struct Ahead {
    architecture: Architecture,
    /// The stack pointer.
    sp: Slot,
    /// The frame pointer; none once it is the caller's.
    fp: Option<Slot>,
    /// Where registers are taken from: those of `followed` in that order, then the link register.
    loads: [Option<Slot>; REGISTERS],
    /// Where they were put, the first time and the last, and where they had been taken from then.
    stores: [[Option<Store>; 2]; REGISTERS],
    /// Which of them were pushed: bits in the same order.
    pushed: u16,
    /// Where the frame pointer is set to, the first time.
    pub(super) frame: Option<Slot>,
    /// Where the frame pointer is saved.
    record: Option<Slot>,
    lowerings: [Lowering; LOWERINGS],
    lowering_count: usize,
    /// The stack pointer has been raised, or set: what comes now is no prologue.
    raised: bool,
    /// A jump has left the function, or it is not known what function this is.
    pub(super) left: bool,
}

const LINK: usize = FOLLOWED;
const REGISTERS: usize = FOLLOWED + 1;

impl Ahead {
    pub(super) const fn new(architecture: Architecture) -> Self {
        Self {
            architecture,
            sp: Slot { base: Base::Stack, offset: 0 },
            fp: Some(Slot { base: Base::Frame, offset: 0 }),
            loads: [None; REGISTERS],
            stores: [[None; 2]; REGISTERS],
            pushed: 0,
            frame: None,
            record: None,
            lowerings: [Lowering::By(0); LOWERINGS],
            lowering_count: 0,
            raised: false,
            left: false,
        }
    }

    /// Follows the instructions from `position` on.
    pub(super) fn follow<M: Memory>(
        &mut self,
        memory: &mut M,
        position: &Position<'_>,
        frame: &Frame,
    ) -> End {
        let mut window = Window::<64>::new();
        self.left = position.function.end <= position.function.start;
        let mut at = position.pc;
        let mut around_trap = None;
        let mut departure: Option<Self> = None;
        for _ in 0..STEPS {
            let (step, size) = match self.architecture {
                Architecture::Arm64 => arm64::decode(window.at(memory, at, arm64::SIZE), at),
                Architecture::X86_64 => x86_64::decode(window.at(memory, at, x86_64::LONGEST), at),
            };
            let next = at.wrapping_add(size);
            let way_around = around_trap.take();
            at = match step {
                Step::Return => return End::Leaves,
                Step::Jump(target) if self.is_taken_down(target, position, frame) => return End::Leaves,
                // A stub: on to where the loader has put what is meant.
                Step::Jump(None) if self.left => return End::Leaves,
                Step::Jump(None) if self.is_as_at_start() && self.is_behind_frame(memory, at) => {
                    return End::Leaves;
                }
                Step::Jump(Some(target)) => {
                    if !position.function.contains(target) {
                        // To another function, or to the end of this one that was put elsewhere: that would be seen,
                        // where the tables know whole functions.
                        let whole = position.body.is_some();
                        departure = departure.or_else(|| whole.then(|| self.clone()));
                        self.left = true;
                    }
                    target
                }
                Step::Branch(target) => {
                    around_trap = Some(target);
                    next
                }
                // Checks before a return: who fails dies.
                Step::Trap if way_around.is_some() => way_around.unwrap_or(next),
                step if self.apply(step, frame).is_some() => next,
                _ => break,
            };
            // Nothing falls out of a function: what stands at its end does not come back.
            if at == next && next == position.function.end {
                break;
            }
        }
        match departure {
            Some(departure) => {
                *self = departure;
                End::Leaves
            }
            None => End::Open,
        }
    }

    fn is_as_at_start(&self) -> bool {
        self.sp == Slot { base: Base::Stack, offset: 0 } && self.loads.iter().all(Option::is_none)
    }

    /// Whether the instruction before the one at `at` has taken down the last of a frame.
    fn is_behind_frame<M: Memory>(&self, memory: &mut M, at: u64) -> bool {
        match self.architecture {
            Architecture::Arm64 => arm64::is_behind_frame(memory, at),
            Architecture::X86_64 => x86_64::is_behind_frame(memory, at),
        }
    }

    /// Whether the frame is gone: a jump now goes to another function, with the stack as at the call.
    fn is_taken_down(&self, target: Option<u64>, position: &Position<'_>, frame: &Frame) -> bool {
        let raised = self.raised && self.sp.base == Base::Stack;
        match position.body {
            Some(body) if body.cfa_register == frame.sp => {
                let whole = i64::from(body.cfa_offset).wrapping_sub(frame.taken_by_return);
                raised && self.sp.offset == whole
            }
            // Nothing else raises the stack there.
            Some(_) if self.architecture == Architecture::Arm64 => raised,
            None if target.is_some_and(|target| position.function.contains(target)) => false,
            _ => self.raised && self.load_of(frame.fp).is_some(),
        }
    }

    /// None if what follows cannot be told any more.
    fn apply(&mut self, step: Step, frame: &Frame) -> Option<()> {
        match step {
            Step::Plain => {}
            Step::Stack(by) => self.move_stack(by),
            Step::FrameFromStack(offset) => {
                let to = self.sp.plus(offset);
                self.frame = self.frame.or(Some(to));
                self.fp = Some(to);
            }
            Step::StackFromFrame(offset) => {
                self.sp = self.fp?.plus(offset);
                self.raised = true;
            }
            Step::Leave => {
                self.sp = self.fp?;
                self.raised = true;
                self.load(frame.fp, self.sp);
                self.sp = self.sp.plus(8);
            }
            Step::Store(access) => {
                if access.before < 0 {
                    let lowering = self.lowering(&access);
                    if let Lowering::Push(register) = lowering {
                        self.pushed |= self.index(register).map_or(0, bit);
                    }
                    self.note(lowering);
                    self.sp = self.sp.plus(access.before);
                } else {
                    self.move_stack(access.before);
                }
                self.each(&access, Self::store)?;
                // Where frame pointers are optional, a register that happens to be this one is put anywhere.
                if self.architecture == Architecture::Arm64 || access.before < 0 {
                    self.note_record(&access, frame);
                }
                self.move_stack(access.after);
            }
            Step::Load(access) => {
                self.move_stack(access.before);
                self.each(&access, Self::load)?;
                self.move_stack(access.after);
            }
            Step::Return | Step::Jump(_) | Step::Branch(_) | Step::Trap | Step::Unknown => return None,
        }
        Some(())
    }

    fn each(&mut self, access: &Access, visit: impl Fn(&mut Self, u16, Slot)) -> Option<()> {
        let base = match access.base {
            Base::Stack => self.sp,
            // Once the frame pointer is the caller's, it says nothing of this frame.
            Base::Frame => match self.fp {
                Some(fp) => fp,
                None => {
                    return access.registers.iter().flatten().all(|r| self.index(*r).is_none()).then_some(());
                }
            },
        };
        for (register, offset) in access.registers.iter().zip([0, 8]) {
            if let Some(register) = register {
                visit(self, *register, base.plus(access.offset).plus(offset));
            }
        }
        Some(())
    }

    fn move_stack(&mut self, by: i64) {
        match by {
            0 => return,
            1.. => self.raised = true,
            _ => self.note(Lowering::By(by.wrapping_neg())),
        }
        self.sp = self.sp.plus(by);
    }

    /// How a store lowers the stack pointer.
    fn lowering(&self, access: &Access) -> Lowering {
        match access.registers {
            [Some(register), None] if access.before == -8 && self.index(register).is_some() => {
                Lowering::Push(register)
            }
            _ => Lowering::By(access.before.wrapping_neg()),
        }
    }

    fn note(&mut self, lowering: Lowering) {
        if self.raised {
            return;
        }
        if let Some(slot) = self.lowerings.get_mut(self.lowering_count) {
            *slot = lowering;
            self.lowering_count = self.lowering_count.saturating_add(1);
        }
    }

    /// How the stack pointer is lowered before it is raised, in order.
    pub(super) fn lowerings(&self) -> &[Lowering] {
        self.lowerings.get(..self.lowering_count).unwrap_or(&[])
    }

    /// The place of a register that functions must preserve, or of the link register, in `loads` and `stores`.
    fn index(&self, register: u16) -> Option<usize> {
        if Frame::of(self.architecture).lr == Some(register) {
            return Some(LINK);
        }
        followed(self.architecture).iter().position(|other| *other == register)
    }

    fn load_of(&self, register: u16) -> Option<Slot> {
        self.loads.get(self.index(register)?).copied().flatten()
    }

    pub(super) fn stores(&self, register: u16) -> bool {
        let stores = self.index(register).and_then(|index| self.stores.get(index));
        stores.is_some_and(|[first, _]| first.is_some())
    }

    /// Whether a register is first stored so many bytes from where the stack pointer is at the start.
    pub(super) fn stores_on_stack(&self, register: u16, offset: i64) -> bool {
        let stores = self.index(register).and_then(|index| self.stores.get(index));
        let first = stores.and_then(|[first, _]| *first);
        first.is_some_and(|first| first.to == Slot { base: Base::Stack, offset })
    }

    fn store(&mut self, register: u16, slot: Slot) {
        let new = Some(Store { to: slot, loaded: self.load_of(register) });
        let index = self.index(register);
        if let Some([first, last]) = index.and_then(|index| self.stores.get_mut(index)) {
            *first = first.or(new);
            *last = new;
        }
    }

    /// A register comes from memory: from where one of these instructions has put it, so that it is what it was then, or
    /// from where it was put long ago.
    fn load(&mut self, register: u16, slot: Slot) {
        if register == Frame::of(self.architecture).fp {
            self.fp = None;
        }
        let Some(index) = self.index(register) else { return };
        let saved = self.architecture == Architecture::Arm64 || self.pushed & bit(index) != 0;
        let mut stores = self.stores.get(index).into_iter().flatten().flatten();
        // What is saved on the way in is restored on the way out, by whatever register.
        let store = stores.find(|store| store.to == slot || (store.to.base != slot.base && saved));
        let from = store.map_or(Some(slot), |store| store.loaded);
        if let Some(load) = self.loads.get_mut(index) {
            *load = from;
        }
    }

    fn note_record(&mut self, access: &Access, frame: &Frame) {
        let base = match access.base {
            Base::Stack => Some(self.sp),
            Base::Frame => self.fp,
        };
        if access.registers.first() == Some(&Some(frame.fp)) {
            self.record = self.record.or(base.map(|base| base.plus(access.offset)));
        }
    }

    /// The rule now, if the function returns with the stack as it is after the last instruction.
    ///
    /// None if slots are found by both registers: how far apart they are is not known.
    pub(super) fn at_return(&self, frame: &Frame) -> Option<SavedRule> {
        let cfa = self.sp.plus(frame.taken_by_return);
        let mut rule = self.rule(cfa, frame)?;
        rule.return_place = match frame.lr {
            Some(lr) => self.load_of(lr).map_or(Some(0), |slot| place(cfa, slot))?,
            None => 1,
        };
        for (register, load) in followed(frame.architecture).iter().zip(&self.loads) {
            if let Some(slot) = load {
                rule.save(frame.architecture, *register, place(cfa, *slot)?);
            }
        }
        Some(rule)
    }

    /// The rule now, if the frame pointer is still to be set: it will point to the record, right below the CFA as Apple's
    /// compilers have it (GCC puts arm64's at the bottom of the frame).
    ///
    /// Where frame pointers are optional the same instruction can compute some address: unless the table speaks of a
    /// frame pointer, the caller's must be seen to be saved there. On arm64, where they are not, it was saved already.
    pub(super) fn before_frame(&self, position: &Position<'_>, frame: &Frame) -> Option<SavedRule> {
        let record = self.frame.filter(|slot| slot.base == Base::Stack)?;
        let body = position.body.filter(|body| body.cfa_register == frame.fp && !self.left);
        let saved_before = self.record.is_none() && self.architecture == Architecture::Arm64;
        if body.is_none() && !saved_before && self.record != Some(record) {
            return None;
        }
        let mut rule = self.rule(record.plus(16), frame)?;
        let saved = |register: u16, place: u16| if self.stores(register) { 0 } else { place };
        rule.return_place = frame.lr.map_or(1, |lr| saved(lr, 1));
        if let (Some(body), Architecture::Arm64) = (body, frame.architecture) {
            // The others were saved before; on x86_64 they come after.
            let registers = followed(frame.architecture).iter().zip(&body.places);
            registers.for_each(|(register, place)| {
                rule.save(frame.architecture, *register, saved(*register, *place));
            });
        }
        rule.save(frame.architecture, frame.fp, saved(frame.fp, 2));
        Some(rule)
    }

    /// None if the caller's stack would begin below this frame's.
    fn rule(&self, cfa: Slot, frame: &Frame) -> Option<SavedRule> {
        let register = match cfa.base {
            Base::Stack if cfa.offset < frame.taken_by_return => return None,
            Base::Stack => frame.sp,
            Base::Frame => frame.fp,
        };
        Some(SavedRule::new(Trust::Compact, register, cfa.offset.try_into().ok()?))
    }
}

const fn bit(index: usize) -> u16 {
    1u16.wrapping_shl(index as u32)
}

/// Where a slot lies below the CFA, in words.
fn place(cfa: Slot, slot: Slot) -> Option<u16> {
    let below = cfa.offset.checked_sub(slot.offset).filter(|_| cfa.base == slot.base)?;
    if below <= 0 || below % 8 != 0 {
        return None;
    }
    u16::try_from(below / 8).ok()
}
