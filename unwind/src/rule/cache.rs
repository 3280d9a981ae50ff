//! Rules that were found, by address.

use super::{FrameAddress, Rule, Usual};
use freezeframe_arch::Architecture;

const SETS: usize = 512;
/// A stack has a few hundred addresses: some two of them share a set, hardly any three.
const WAYS: usize = 2;

/// A cache of rules, two for each hash, in storage of a fixed size (48 KiB): `const` constructible. A frozen loop is
/// looked at more than once, and threads wait in the same places.
///
/// The rule of an instruction and the rule of a call that ends there are kept apart even where they are looked up by
/// the same address: the first may be right in a prologue, where the second would never be asked for.
#[derive(Debug)]
pub struct RuleCache {
    sets: [[Kept; WAYS]; SETS],
    version: u32,
}

/// A rule and the address that it was found for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// The address that was looked up.
    address: u64,
    at: At,
    pub(crate) rule: Rule,
    /// The same, if it is a usual one.
    pub(crate) usual: Option<Usual>,
}

static_assertions::const_assert!(size_of::<Kept>() <= 48);

/// How an address was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum At {
    /// Not at all: nothing is kept here.
    Nowhere,
    /// The thread stood there.
    Instruction,
    /// A call ended there.
    Call,
}

impl Kept {
    const NONE: Self = Self { address: 0, at: At::Nowhere, rule: Rule::End, usual: None };

    #[inline]
    fn is_for(&self, lookup: u64, at: At) -> bool {
        self.address == lookup && self.at == at
    }
}

impl RuleCache {
    /// How many bytes the rule of one address takes.
    pub const ENTRY_SIZE: usize = size_of::<Kept>();

    /// No rules.
    pub const fn new() -> Self {
        Self { sets: [[Kept::NONE; WAYS]; SETS], version: 0 }
    }

    /// Forgets everything if the images have changed since `version`, and returns whether it did.
    ///
    /// # Signal safety
    /// Safe, as is every method of this type.
    pub fn keep_for(&mut self, version: u32) -> bool {
        let changed = self.version != version;
        if changed {
            self.sets.as_flattened_mut().iter_mut().for_each(|kept| kept.at = At::Nowhere);
            self.version = version;
        }
        changed
    }

    /// The rule for an address, if it is kept.
    #[inline]
    pub fn get(&self, address: FrameAddress) -> Option<Rule> {
        self.find(address).map(|kept| kept.rule)
    }

    /// The same, where it is kept.
    #[inline]
    pub(crate) fn find(&self, address: FrameAddress) -> Option<&Kept> {
        let (lookup, at) = (address.lookup(), at(address));
        let [newer, older] = self.sets.get(Self::index(lookup))?;
        if newer.is_for(lookup, at) {
            return Some(newer);
        }
        (older.is_for(lookup, at)).then_some(older)
    }

    /// Keeps the rule of an address, in place of the older of the two that share its hash.
    pub fn insert(&mut self, architecture: Architecture, address: FrameAddress, rule: Rule) {
        let (lookup, at) = (address.lookup(), at(address));
        let Some([newer, older]) = self.sets.get_mut(Self::index(lookup)) else { return };
        if !newer.is_for(lookup, at) {
            *older = *newer;
        }
        let usual = match &rule {
            Rule::Saved(rule) => rule.usual(architecture),
            _ => None,
        };
        *newer = Kept { address: lookup, at, rule, usual };
    }

    /// Multiplicative hashing: neighbouring addresses come to lie apart.
    #[inline]
    const fn index(address: u64) -> usize {
        (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55) as usize
    }
}

#[inline]
const fn at(address: FrameAddress) -> At {
    match address {
        FrameAddress::InstructionPointer(_) | FrameAddress::SignalReturn(_) => At::Instruction,
        FrameAddress::ReturnAddress(_) => At::Call,
    }
}

impl Default for RuleCache {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::boxed::Box;

    const ARCHITECTURE: Architecture = Architecture::X86_64;

    #[test]
    fn a_rule_is_kept_for_its_address_and_for_one_version_of_the_images() {
        let mut cache = Box::new(RuleCache::new());
        let at = FrameAddress::InstructionPointer;
        assert_eq!((cache.get(at(0)), cache.get(at(5))), (None, None));
        (1..=200).for_each(|n| {
            let rule = if n % 2 == 0 { Rule::End } else { Rule::FramePointer };
            cache.insert(ARCHITECTURE, at(n * 0x1234), rule);
        });
        let kept = (1..=200u64).filter(|n| {
            let rule = cache.get(at(n * 0x1234));
            assert!(rule.is_none_or(|rule| rule == if n % 2 == 0 { Rule::End } else { Rule::FramePointer }));
            rule.is_some()
        });
        assert!(kept.count() > 190, "few of 200 addresses share one of 512 sets with two others");
        assert!(!cache.keep_for(0) && cache.get(at(0x1234 * 200)).is_some());
        assert!(cache.keep_for(7) && cache.get(at(0x1234 * 200)).is_none());
        assert!(!cache.keep_for(7));
    }

    #[test]
    fn an_instruction_and_a_call_that_ends_there_do_not_share_a_rule() {
        let mut cache = Box::new(RuleCache::new());
        let (instruction, call) =
            (FrameAddress::InstructionPointer(0x1000), FrameAddress::ReturnAddress(0x1001));
        assert_eq!(instruction.lookup(), call.lookup());
        cache.insert(ARCHITECTURE, instruction, Rule::End);
        assert_eq!((cache.get(instruction), cache.get(call)), (Some(Rule::End), None));
        assert_eq!(cache.get(FrameAddress::SignalReturn(0x1000)), Some(Rule::End));
        cache.insert(ARCHITECTURE, call, Rule::FramePointer);
        assert_eq!((cache.get(instruction), cache.get(call)), (Some(Rule::End), Some(Rule::FramePointer)));
    }

    #[test]
    fn of_three_addresses_with_one_hash_the_latest_two_are_kept() {
        let mut cache = Box::new(RuleCache::new());
        let at = FrameAddress::InstructionPointer;
        let same = |address: &u64| RuleCache::index(*address) == RuleCache::index(1);
        let [one, two, three] = core::array::from_fn(|n| at((1..).filter(same).nth(n).unwrap()));
        cache.insert(ARCHITECTURE, one, Rule::End);
        cache.insert(ARCHITECTURE, two, Rule::FramePointer);
        assert_eq!((cache.get(one), cache.get(two)), (Some(Rule::End), Some(Rule::FramePointer)));
        cache.insert(ARCHITECTURE, two, Rule::End);
        assert_eq!((cache.get(one), cache.get(two)), (Some(Rule::End), Some(Rule::End)));
        cache.insert(ARCHITECTURE, three, Rule::End);
        assert_eq!((cache.get(one), cache.get(three)), (None, Some(Rule::End)));
        assert_eq!(cache.get(two), Some(Rule::End));
    }
}
