//! Rules that were found, by address.

use super::Rule;

const ENTRIES: usize = 1024;

/// A cache of rules, direct-mapped, in storage of a fixed size (48 KiB): `const` constructible. A frozen loop is
/// looked at more than once, and threads wait in the same places.
#[derive(Debug)]
pub struct RuleCache {
    entries: [Entry; ENTRIES],
    version: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The address that was looked up; zero, where no code is, marks an empty entry.
    address: u64,
    rule: Rule,
}

static_assertions::const_assert!(size_of::<Entry>() <= 48);

impl RuleCache {
    /// No rules.
    pub const fn new() -> Self {
        Self { entries: [Entry { address: 0, rule: Rule::End }; ENTRIES], version: 0 }
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
    pub fn get(&self, address: u64) -> Option<Rule> {
        let entry = self.entries.get(Self::index(address))?;
        (entry.address == address && address != 0).then_some(entry.rule)
    }

    /// Keeps the rule of an address, in place of another one's.
    pub fn insert(&mut self, address: u64, rule: Rule) {
        if let Some(entry) = self.entries.get_mut(Self::index(address)) {
            *entry = Entry { address, rule };
        }
    }

    /// Multiplicative hashing: neighbouring addresses come to lie apart.
    #[inline]
    const fn index(address: u64) -> usize {
        (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize
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

    #[test]
    fn a_rule_is_kept_for_its_address_and_for_one_version_of_the_images() {
        let mut cache = Box::new(RuleCache::new());
        assert_eq!((cache.get(0), cache.get(5)), (None, None));
        (1..=200)
            .for_each(|n| cache.insert(n * 0x1234, if n % 2 == 0 { Rule::End } else { Rule::FramePointer }));
        let kept = (1..=200u64).filter(|n| {
            let rule = cache.get(n * 0x1234);
            assert!(rule.is_none_or(|rule| rule == if n % 2 == 0 { Rule::End } else { Rule::FramePointer }));
            rule.is_some()
        });
        assert!(kept.count() > 150, "few of 200 addresses share one of 1,024 places");
        assert!(!cache.keep_for(0) && cache.get(0x1234 * 200).is_some());
        assert!(cache.keep_for(7) && cache.get(0x1234 * 200).is_none());
        assert!(!cache.keep_for(7));
    }
}
