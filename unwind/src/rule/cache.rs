//! Rules that were found, by address.

use super::{FrameAddress, Rule};

const ENTRIES: usize = 1024;

/// A cache of rules, direct-mapped, in storage of a fixed size (48 KiB): `const` constructible. A frozen loop is
/// looked at more than once, and threads wait in the same places.
///
/// The rule of an instruction and the rule of a call that ends there are kept apart even where they are looked up by
/// the same address: the first may be right in a prologue, where the second would never be asked for.
#[derive(Debug)]
pub struct RuleCache {
    entries: [Entry; ENTRIES],
    version: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The address that was looked up; zero, where no code is, marks an empty entry.
    address: u64,
    /// Whether the thread stood at that address, instead of in a call.
    stands: bool,
    rule: Rule,
}

static_assertions::const_assert!(size_of::<Entry>() <= 48);

impl RuleCache {
    /// How many bytes the rule of one address takes.
    pub const ENTRY_SIZE: usize = size_of::<Entry>();

    /// No rules.
    pub const fn new() -> Self {
        Self { entries: [Entry { address: 0, stands: false, rule: Rule::End }; ENTRIES], version: 0 }
    }

    /// Forgets everything if the images have changed since `version`, and returns whether it did.
    ///
    /// # Signal safety
    /// Safe, as is every method of this type.
    pub fn keep_for(&mut self, version: u32) -> bool {
        let changed = self.version != version;
        if changed {
            self.entries.iter_mut().for_each(|entry| entry.address = 0);
            self.version = version;
        }
        changed
    }

    /// The rule for an address, if it is kept.
    #[inline]
    pub fn get(&self, address: FrameAddress) -> Option<Rule> {
        let lookup = address.lookup();
        let entry = self.entries.get(Self::index(lookup))?;
        (entry.address == lookup && lookup != 0 && entry.stands == stands(address)).then_some(entry.rule)
    }

    /// Keeps the rule of an address, in place of another one's.
    pub fn insert(&mut self, address: FrameAddress, rule: Rule) {
        let lookup = address.lookup();
        if let Some(entry) = self.entries.get_mut(Self::index(lookup)) {
            *entry = Entry { address: lookup, stands: stands(address), rule };
        }
    }

    /// Multiplicative hashing: neighbouring addresses come to lie apart.
    #[inline]
    const fn index(address: u64) -> usize {
        (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize
    }
}

#[inline]
const fn stands(address: FrameAddress) -> bool {
    !matches!(address, FrameAddress::ReturnAddress(_))
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

    #[test]
    fn a_rule_is_kept_for_its_address_and_for_one_version_of_the_images() {
        let mut cache = Box::new(RuleCache::new());
        let at = FrameAddress::InstructionPointer;
        assert_eq!((cache.get(at(0)), cache.get(at(5))), (None, None));
        (1..=200).for_each(|n| {
            cache.insert(at(n * 0x1234), if n % 2 == 0 { Rule::End } else { Rule::FramePointer });
        });
        let kept = (1..=200u64).filter(|n| {
            let rule = cache.get(at(n * 0x1234));
            assert!(rule.is_none_or(|rule| rule == if n % 2 == 0 { Rule::End } else { Rule::FramePointer }));
            rule.is_some()
        });
        assert!(kept.count() > 150, "few of 200 addresses share one of 1,024 places");
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
        cache.insert(instruction, Rule::End);
        assert_eq!((cache.get(instruction), cache.get(call)), (Some(Rule::End), None));
        assert_eq!(cache.get(FrameAddress::SignalReturn(0x1000)), Some(Rule::End));
        cache.insert(call, Rule::FramePointer);
        assert_eq!((cache.get(instruction), cache.get(call)), (None, Some(Rule::FramePointer)));
    }
}
