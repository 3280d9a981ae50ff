//! Text, values and breadcrumbs in memory of a fixed size: a report is made without an allocation.

use freezeframe_report::encode::Crumb;

/// At most `N` bytes of text; the rest is cut off at a character.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self { bytes: [0; N], length: 0 }
    }
}

impl<const N: usize> Text<N> {
    pub(crate) fn new(text: &str) -> Self {
        let mut length = text.len().min(N);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        let mut bytes = [0; N];
        bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
        Self { bytes, length }
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or("")
    }
}

/// Names and values that a program adds to a report: at most 16, names of 32 bytes, values of 128; what is longer is cut off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Values {
    all: [(Text<32>, Text<128>); Values::MAX],
    count: usize,
}

impl Values {
    pub(crate) const MAX: usize = 16;

    /// Sets a value; the latest of a name counts. False if there is no room for another name.
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        let (name, value) = (Text::new(name), Text::new(value));
        let known = self.all[..self.count].iter().position(|(known, _)| known.as_str() == name.as_str());
        let at = known.unwrap_or(self.count);
        let Some(slot) = self.all.get_mut(at) else { return false };
        *slot = (name, value);
        self.count = self.count.max(at + 1);
        true
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.all[..self.count].iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// What happened last in a component: the latest 16, each of at most 96 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Crumbs {
    all: [(u64, Text<96>); Crumbs::MAX],
    added: usize,
}

impl Crumbs {
    pub(crate) const MAX: usize = 16;

    pub(crate) fn add(&mut self, at_ns: u64, text: &str) {
        self.all[self.added % Self::MAX] = (at_ns, Text::new(text));
        self.added += 1;
    }

    /// Oldest first.
    pub(crate) fn iter<'a>(&'a self, component: &'a str) -> impl Iterator<Item = Crumb<'a>> {
        let kept = self.added.min(Self::MAX);
        let first = self.added - kept;
        (first..self.added).map(move |number| {
            let (at_ns, text) = &self.all[number % Self::MAX];
            Crumb { at_ns: *at_ns, component, text: text.as_str() }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_off_at_a_character() {
        assert_eq!(Text::<4>::new("aöß").as_str(), "aö");
        assert_eq!(Text::<4>::new("a").as_str(), "a");
    }

    #[test]
    fn values_are_bounded_and_the_latest_of_a_name_counts() {
        let mut values = Values::default();
        for n in 0..16 {
            assert!(values.set(&format!("name {n}"), "1"));
        }
        assert!(!values.set("another", "1") && values.set("name 3", &"x".repeat(500)));
        let all: Vec<_> = values.iter().collect();
        assert_eq!((all.len(), all[3].0, all[3].1.len()), (16, "name 3", 128));
    }

    #[test]
    fn the_latest_breadcrumbs_stay_oldest_first() {
        let mut crumbs = Crumbs::default();
        assert_eq!(crumbs.iter("c").count(), 0);
        (0..20).for_each(|n| crumbs.add(n, &format!("crumb {n}")));
        let all: Vec<_> = crumbs.iter("c").collect();
        assert_eq!((all.len(), all[0].at_ns, all[15].text), (16, 4, "crumb 19"));
    }
}
