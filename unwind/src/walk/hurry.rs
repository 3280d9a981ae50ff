//! Frames that are usual in every way, one after the other: what most walks consist of, and so kept short.

use super::{Frame, Walker};
use crate::memory::Memory;
use crate::rule::{Base, FrameAddress, Rule, followed_fp};

impl<T: Memory> Walker<'_, T> {
    /// Goes on while rules are kept and the frames in bounds, and returns how many frames came. At anything else it
    /// stays where it is, and [`step`](Self::step) decides.
    ///
    /// A frame record says where the next one is. So the rules need not have come from memory before the next frame is
    /// begun, as long as the processor guesses right what they will be.
    #[inline]
    pub(super) fn hurry<M: Memory>(&mut self, memory: &mut M, frames: &mut [Frame]) -> usize {
        let Self { finder, registers, pac, high, .. } = self;
        let (rules, pac, high) = (&finder.context.rules, *pac, *high);
        let (FrameAddress::ReturnAddress(_), Some(mut kept)) = (self.address, rules.find(self.address))
        else {
            return 0;
        };
        let Some((mut sp, mut fp)) = registers.pointers(memory) else { return 0 };
        let fp_index = followed_fp(registers.architecture());
        let (mut address, mut filled) = (self.address, 0u32);
        for slot in frames.iter_mut().take(self.steps_left as usize) {
            let (Rule::Saved(rule), Some(usual)) = (&kept.rule, kept.usual) else { break };
            let offset = i64::from(rule.cfa_offset);
            let below = |cfa: u64, place: u16| cfa.wrapping_sub(u64::from(place).wrapping_mul(8));
            let (cfa, caller_fp, pc) = match usual.base {
                Base::Record => {
                    let Ok([caller_fp, pc]) = memory.read_record(fp) else { break };
                    (fp.wrapping_add_signed(offset), caller_fp, pc)
                }
                base => {
                    let start = if base == Base::StackPointer { sp } else { fp };
                    let cfa = start.wrapping_add_signed(offset);
                    let Some(pc) = memory.read_u64(below(cfa, rule.return_place)) else { break };
                    let caller_fp = match rule.places.get(fp_index) {
                        Some(0) | None => Some(fp),
                        Some(place) => memory.read_u64(below(cfa, *place)),
                    };
                    let Some(caller_fp) = caller_fp else { break };
                    (cfa, caller_fp, pc)
                }
            };
            let caller = FrameAddress::ReturnAddress(pac.strip(pc));
            let Some(next) = rules.find(caller) else { break };
            if cfa <= sp || cfa > high {
                break;
            }
            let mut others = usual.others;
            while others != 0 {
                let index = others.trailing_zeros() as usize;
                registers.note(index, below(cfa, rule.places.get(index).copied().unwrap_or(0)));
                others &= others.wrapping_sub(1);
            }
            *slot = Frame { address: FrameAddress::ReturnAddress(pc), sp: cfa, trust: rule.trust };
            (kept, sp, fp, address) = (next, cfa, caller_fp, caller);
            filled = filled.wrapping_add(1);
        }
        if filled != 0 {
            self.address = address;
            self.steps_left = self.steps_left.saturating_sub(filled);
            registers.go_to(sp, fp);
        }
        filled as usize
    }
}
