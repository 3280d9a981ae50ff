//! The rules that nearly every frame of compiled code has, small enough to be kept.

use super::Trust;
use super::row::{CfaRule, RegisterRule, Row};
use freezeframe_arch::Architecture;

/// The registers that a function must preserve and that a walk follows, by DWARF number; the last one is the frame
/// pointer.
pub(crate) const fn followed(architecture: Architecture) -> &'static [u16] {
    match architecture {
        Architecture::X86_64 => &[3, 12, 13, 14, 15, 6],
        Architecture::Arm64 => &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29],
    }
}

/// The place of the frame pointer among [`followed`].
pub(crate) const fn followed_fp(architecture: Architecture) -> usize {
    followed(architecture).len().saturating_sub(1)
}

/// How many registers any architecture follows.
pub(crate) const FOLLOWED: usize = 11;

/// Where a frame keeps what it has saved, in words from the CFA downward: the word at `cfa - 8 × n`; zero: nowhere.
pub(crate) type Place = u16;

/// A rule that can be kept: an equation for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// There is no caller: the tables say that the stack ends here.
    End,
    /// `(pc, sp, fp) = (*(fp + 8), fp + 16, *fp)`, for code without tables.
    FramePointer,
    /// See [`SavedRule`].
    Saved(SavedRule),
}

/// ```text
/// cfa = register + offset
/// r   = *(cfa - 8 × place of r)    for each register that was saved
/// pc  = *(cfa - 8 × place of pc)   or the link register, if that was not saved
/// sp  = cfa
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedRule {
    pub(crate) cfa_offset: i32,
    pub(crate) cfa_register: u16,
    /// Of the return address; zero: it is in the link register.
    pub(crate) return_place: Place,
    /// Which tables say so.
    pub(crate) trust: Trust,
    /// Of the registers of [`followed`], in that order.
    pub(crate) places: [Place; FOLLOWED],
}

static_assertions::const_assert!(size_of::<Rule>() <= 36);

/// A rule as a walk in a hurry wants it: the return address is on the stack, and the frame is found by the stack pointer
/// or the frame pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usual {
    pub(crate) base: Base,
    /// Which registers of [`followed`] were saved, but for the frame pointer: a bit each.
    pub(crate) others: u16,
}

/// What the frame is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Base {
    /// The frame pointer, which points to a frame record: `(fp, pc) = (*fp, *(fp + 8))`.
    Record,
    /// The frame pointer.
    FramePointer,
    /// The stack pointer.
    StackPointer,
}

impl SavedRule {
    /// x86_64: only `pushed` bytes lie between the stack pointer and the return address. Read from the instructions,
    /// which is as good as tables.
    pub(crate) const fn above_stack_pointer(pushed: u16) -> Self {
        let cfa_offset = pushed as i32 + 8;
        Self { cfa_offset, cfa_register: 7, return_place: 1, trust: Trust::Cfi, places: [0; FOLLOWED] }
    }

    /// In such a rule, a register that is saved so many bytes above the stack pointer.
    pub(crate) fn save_above_stack_pointer(&mut self, register: u16, bytes: u16) {
        let index = followed(Architecture::X86_64).iter().position(|other| *other == register);
        let below = self.cfa_offset.wrapping_sub(bytes.into());
        if let Some(slot) = index.and_then(|index| self.places.get_mut(index)) {
            *slot = place(i64::from(below).wrapping_neg()).unwrap_or(0);
        }
    }
}

impl Rule {
    /// The rule that a row comes down to; none if it needs more: expressions, other registers, a signal's frame.
    ///
    /// # Signal safety
    /// Safe.
    pub fn from_row(row: &Row) -> Option<Self> {
        let architecture = row.architecture();
        if row.is_signal_frame() {
            return None;
        }
        if row.return_address() == RegisterRule::Undefined {
            return Some(Self::End);
        }
        let CfaRule::RegisterOffset { register, offset } = row.cfa() else { return None };
        let mut saved = SavedRule::new(Trust::Cfi, register, offset.try_into().ok()?);
        let (return_register, in_register) = match architecture {
            Architecture::X86_64 => (16, false),
            Architecture::Arm64 => (30, true),
        };
        if row.return_column() != return_register {
            return None;
        }
        for (register, rule) in row.rules() {
            let place = match rule {
                RegisterRule::Offset(offset) => place(offset)?,
                RegisterRule::SameValue | RegisterRule::Unspecified => 0,
                _ => return None,
            };
            if u64::from(register) == return_register {
                saved.return_place = place;
            }
            let followed = followed(architecture).iter().position(|other| *other == register);
            match followed.and_then(|index| saved.places.get_mut(index)) {
                Some(slot) => *slot = place,
                None if u64::from(register) == return_register || place == 0 => {}
                None => return None,
            }
        }
        (saved.return_place != 0 || in_register).then_some(Self::Saved(saved))
    }
}

impl SavedRule {
    /// `cfa = register + offset`, where nothing was saved.
    pub(crate) const fn new(trust: Trust, cfa_register: u16, cfa_offset: i32) -> Self {
        Self { cfa_offset, cfa_register, return_place: 0, trust, places: [0; FOLLOWED] }
    }

    /// The DWARF number of the register that the CFA is found by, and what to add to it.
    ///
    /// # Signal safety
    /// Safe, as is every method of this type.
    pub const fn cfa(&self) -> (u16, i32) {
        (self.cfa_register, self.cfa_offset)
    }

    /// Where the return address is, from the CFA in bytes; none: in the link register.
    pub fn return_address(&self) -> Option<i64> {
        below_cfa(self.return_place)
    }

    /// Where a register that functions must preserve was saved, from the CFA in bytes; none: it still holds its value.
    pub fn saved(&self, architecture: Architecture, register: u16) -> Option<i64> {
        let index = followed(architecture).iter().position(|other| *other == register)?;
        below_cfa(*self.places.get(index)?)
    }

    /// Where the rule comes from.
    pub const fn trust(&self) -> Trust {
        self.trust
    }

    /// The same rule from another source.
    pub(crate) const fn with_trust(self, trust: Trust) -> Self {
        Self { trust, ..self }
    }

    /// The address of a place, which is not zero.
    #[inline]
    pub(crate) const fn address_of(cfa: u64, place: Place) -> u64 {
        cfa.wrapping_sub((place as u64).wrapping_mul(8))
    }

    /// The rule in short, if it is a usual one.
    pub(crate) fn usual(&self, architecture: Architecture) -> Option<Usual> {
        let (fp, sp) = match architecture {
            Architecture::X86_64 => (6, 7),
            Architecture::Arm64 => (29, 31),
        };
        let index = followed_fp(architecture);
        let fp_place = self.places.get(index).copied()?;
        let record = i32::from(fp_place).wrapping_mul(8) == self.cfa_offset
            && self.return_place.checked_add(1) == Some(fp_place);
        let base = match self.cfa_register {
            register if register == fp && record => Base::Record,
            register if register == fp => Base::FramePointer,
            register if register == sp => Base::StackPointer,
            _ => return None,
        };
        let saved = self.places.iter().enumerate().filter(|(other, place)| *other != index && **place != 0);
        let others = saved.fold(0u16, |bits, (other, _)| bits | 1u16.wrapping_shl(other as u32));
        (self.return_place != 0).then_some(Usual { base, others })
    }

    /// Notes where a register was saved.
    pub(crate) fn save(&mut self, architecture: Architecture, register: u16, place: Place) {
        let index = followed(architecture).iter().position(|other| *other == register);
        if let Some(slot) = index.and_then(|index| self.places.get_mut(index)) {
            *slot = place;
        }
    }
}

fn below_cfa(place: Place) -> Option<i64> {
    (place != 0).then(|| i64::from(place).wrapping_mul(-8))
}

/// A place below the CFA, if that is where `offset` is.
fn place(offset: i64) -> Option<Place> {
    let below = offset.checked_neg().filter(|below| *below > 0 && below % 8 == 0)?;
    Place::try_from(below / 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(architecture: Architecture, cfa: CfaRule, rules: &[(usize, RegisterRule)]) -> Row {
        let mut row = Row::new();
        row.architecture = architecture;
        row.return_column = if architecture == Architecture::X86_64 { 16 } else { 30 };
        row.state.cfa = cfa;
        rules.iter().for_each(|(register, rule)| row.state.set(*register, *rule));
        row
    }

    const CFA: CfaRule = CfaRule::RegisterOffset { register: 7, offset: 56 };
    const RETURN: (usize, RegisterRule) = (16, RegisterRule::Offset(-8));

    #[test]
    fn a_usual_row_of_x86_64_is_kept_in_places() {
        let rules = [
            RETURN,
            (6, RegisterRule::Offset(-16)),
            (3, RegisterRule::Offset(-56)),
            (1, RegisterRule::SameValue),
        ];
        let Some(Rule::Saved(rule)) = Rule::from_row(&row(Architecture::X86_64, CFA, &rules)) else {
            panic!()
        };
        assert_eq!((rule.cfa_register, rule.cfa_offset, rule.return_place), (7, 56, 1));
        assert_eq!(rule.places[..6], [7, 0, 0, 0, 0, 2]);
    }

    #[test]
    fn a_leaf_of_arm64_returns_by_its_link_register() {
        let cfa = CfaRule::RegisterOffset { register: 31, offset: 0 };
        let Some(Rule::Saved(leaf)) = Rule::from_row(&row(Architecture::Arm64, cfa, &[])) else { panic!() };
        assert_eq!((leaf.return_place, leaf.places), (0, [0; FOLLOWED]));
        let cfa = CfaRule::RegisterOffset { register: 29, offset: 32 };
        let rules = [
            (29, RegisterRule::Offset(-32)),
            (30, RegisterRule::Offset(-24)),
            (19, RegisterRule::Offset(-16)),
        ];
        let Some(Rule::Saved(rule)) = Rule::from_row(&row(Architecture::Arm64, cfa, &rules)) else {
            panic!()
        };
        assert_eq!((rule.return_place, rule.places[0], rule.places[10]), (3, 2, 4));
    }

    #[test]
    fn a_usual_rule_is_told_by_what_the_frame_is_found_by() {
        let usual = |register, offset, return_place, fp_place, rbx_place| {
            let mut rule = SavedRule::new(Trust::Cfi, register, offset);
            rule.return_place = return_place;
            rule.save(Architecture::X86_64, 6, fp_place);
            rule.save(Architecture::X86_64, 3, rbx_place);
            rule.usual(Architecture::X86_64).map(|usual| (usual.base, usual.others))
        };
        assert_eq!(usual(6, 16, 1, 2, 0), Some((Base::Record, 0)));
        assert_eq!(usual(6, 16, 1, 2, 3), Some((Base::Record, 1)));
        assert_eq!(usual(6, 32, 1, 4, 0), Some((Base::FramePointer, 0)), "not next to each other");
        assert_eq!(
            usual(6, 24, 1, 2, 0),
            Some((Base::FramePointer, 0)),
            "the record is not where fp points to"
        );
        assert_eq!(usual(7, 16, 1, 0, 2), Some((Base::StackPointer, 1)));
        assert_eq!((usual(7, 16, 0, 0, 0), usual(10, 16, 1, 0, 0)), (None, None));
    }

    #[test]
    fn what_needs_more_than_places_is_not_kept() {
        let kept = |cfa, rules: &[_]| Rule::from_row(&row(Architecture::X86_64, cfa, rules));
        let expression = super::super::Expression { address: 1, length: 1 };
        assert_eq!(kept(CFA, &[]), None, "no return address");
        assert_eq!(kept(CfaRule::Expression(expression), &[RETURN]), None);
        assert_eq!(kept(CfaRule::Unspecified, &[RETURN]), None);
        assert_eq!(kept(CFA, &[RETURN, (6, RegisterRule::Expression(expression))]), None);
        assert_eq!(kept(CFA, &[RETURN, (6, RegisterRule::Register(3))]), None);
        assert_eq!(kept(CFA, &[RETURN, (7, RegisterRule::Offset(-16))]), None, "a stack pointer of its own");
        assert_eq!(kept(CFA, &[RETURN, (6, RegisterRule::Offset(-12))]), None, "not a whole word");
        assert_eq!(kept(CFA, &[RETURN, (6, RegisterRule::Offset(8))]), None, "above the CFA");
        assert_eq!(kept(CFA, &[RETURN, (6, RegisterRule::Offset(i64::MIN))]), None);
        assert_eq!(kept(CFA, &[(16, RegisterRule::Undefined)]), Some(Rule::End));
        let mut signal = row(Architecture::X86_64, CFA, &[RETURN]);
        signal.signal_frame = true;
        assert_eq!(Rule::from_row(&signal), None);
    }
}
