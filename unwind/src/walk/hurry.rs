//! Frames that are usual in every way, one after the other: what most walks consist of, and so kept short.

use super::{Frame, Walker};
use crate::memory::Memory;
use crate::rule::{Base, FrameAddress, Rule, SavedRule, followed_fp};
use freezeframe_arch::Architecture;

impl<T: Memory> Walker<'_, T> {
    /// Goes on while rules are kept and the frames in bounds, and returns how many frames came. At anything else it
    /// stays where it is, and [`step`](Self::step) decides.
    ///
    /// A frame record says where the next one is. So the rules need not have come from memory before the next frame is
    /// begun, as long as the processor guesses right what they will be.
    #[inline(never)]
    pub(super) fn hurry<M: Memory>(&mut self, memory: &mut M, frames: &mut [Frame]) -> usize {
        let Self { finder, registers, pac, high, .. } = self;
        let (rules, pac, high) = (&finder.context.rules, *pac, *high);
        let (FrameAddress::ReturnAddress(_), Some(mut kept)) = (self.address, rules.find(self.address))
        else {
            return 0;
        };
        let Some((mut sp, mut fp)) = registers.pointers(memory) else { return 0 };
        let room = frames.len().min(self.steps_left as usize);
        let mut slots = frames.get_mut(..room).unwrap_or(&mut []).iter_mut();
        let mut address = self.address;
        while !slots.as_slice().is_empty() {
            let (Rule::Saved(rule), Some(usual)) = (&kept.rule, kept.usual) else { break };
            let (cfa, caller_fp, pc) = match usual.base {
                Base::Record => {
                    let Ok([caller_fp, pc]) = memory.read_record(fp) else { break };
                    (fp.wrapping_add_signed(rule.cfa_offset.into()), caller_fp, pc)
                }
                Base::FramePointer | Base::StackPointer => {
                    let start = if usual.base == Base::StackPointer { sp } else { fp };
                    match without_record(memory, registers.architecture(), rule, start, fp) {
                        Some(caller) => caller,
                        None => break,
                    }
                }
            };
            let caller = FrameAddress::ReturnAddress(pac.strip(pc));
            let Some(next) = rules.find(caller) else { break };
            if cfa <= sp || cfa > high {
                break;
            }
            if usual.others != 0 {
                registers.note_saved(rule, usual.others, cfa);
            }
            let Some(slot) = slots.next() else { break };
            *slot = Frame { address: FrameAddress::ReturnAddress(pc), sp: cfa, trust: rule.trust };
            (kept, sp, fp, address) = (next, cfa, caller_fp, caller);
        }
        let filled = room.saturating_sub(slots.len());
        if filled != 0 {
            self.address = address;
            self.steps_left = self.steps_left.saturating_sub(filled as u32);
            registers.go_to(sp, fp);
        }
        filled
    }
}

/// The CFA, the caller's frame pointer and the return address, raw, of a frame that is found from `start`. Apart, so that
/// the loop fits into the processor's registers.
#[inline(never)]
fn without_record<M: Memory>(
    memory: &mut M,
    architecture: Architecture,
    rule: &SavedRule,
    start: u64,
    fp: u64,
) -> Option<(u64, u64, u64)> {
    let cfa = start.wrapping_add_signed(rule.cfa_offset.into());
    let pc = memory.read_u64(SavedRule::address_of(cfa, rule.return_place))?;
    match rule.places.get(followed_fp(architecture)) {
        Some(0) | None => Some((cfa, fp, pc)),
        Some(place) => Some((cfa, memory.read_u64(SavedRule::address_of(cfa, *place))?, pc)),
    }
}
