//! Who is looked for when, and what is said of whom. Pure: time is given, and looking is done by the caller.

use super::WeakReference;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// When an object is looked for, counted from when it was expected to go.
const LOOKS_NS: [u64; 3] = [2_000_000_000, 10_000_000_000, 60_000_000_000];

/// An object that is expected to be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Expected(u64);

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeakVerdict {
    /// It was still there a minute later. It is not looked for any more.
    Leaked,
    /// It was there two seconds later, and gone after that.
    FreedLate,
}

/// An object that was not dropped in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leak {
    /// What it was called.
    pub label: String,
    /// What became of it.
    pub verdict: LeakVerdict,
    /// How long after it was expected to go it was last seen.
    pub age: Duration,
}

/// What is expected.
#[derive(Debug, Default)]
pub(super) struct Book {
    next: u64,
    looks: u64,
    /// In the order in which they were expected.
    entries: BTreeMap<u64, Entry>,
    /// Of whom something was said, or of what they belong to. They are few, unless all memory goes that way anyhow.
    mentioned: HashSet<u64>,
}

struct Entry {
    fate: Fate,
    label: String,
    parent: Option<u64>,
    since: u64,
    /// How many looks have found it.
    found: usize,
}

/// What is known of an object.
enum Fate {
    /// It is looked for by this.
    Awaited(Box<dyn WeakReference>),
    /// Somebody is looking for it.
    LookedFor,
    /// The verdict waits for the parent's.
    Decided(LeakVerdict),
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("label", &self.label)
            .field("found", &self.found)
            .finish_non_exhaustive()
    }
}

/// Objects that are to be looked for now.
pub(super) struct Due(Vec<(u64, Box<dyn WeakReference>)>);

/// Who of them is still there; the others are gone.
pub(super) struct Looked(Vec<(u64, Option<Box<dyn WeakReference>>)>);

impl Due {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn look(self) -> Looked {
        let look = |weak: Box<dyn WeakReference>| weak.is_alive().then_some(weak);
        Looked(self.0.into_iter().map(|(id, weak)| (id, look(weak))).collect())
    }
}

impl Book {
    pub(super) fn expect(
        &mut self,
        weak: Box<dyn WeakReference>,
        label: String,
        parent: Option<&Expected>,
        now: u64,
    ) -> Expected {
        let id = self.next;
        self.next += 1;
        let parent = parent.map(|parent| parent.0);
        self.entries.insert(id, Entry { fate: Fate::Awaited(weak), label, parent, since: now, found: 0 });
        Expected(id)
    }

    pub(super) fn pending(&self) -> usize {
        self.entries.values().filter(|entry| !matches!(entry.fate, Fate::Decided(_))).count()
    }

    /// How often an object was looked for.
    #[cfg(test)]
    pub(super) const fn looks(&self) -> u64 {
        self.looks
    }

    /// When somebody is to be looked for next.
    pub(super) fn next_look(&self) -> Option<u64> {
        self.entries.values().filter_map(Entry::due).min()
    }

    /// Those who are to be looked for by now.
    pub(super) fn take_due(&mut self, now: u64) -> Due {
        let is_due = |entry: &Entry| entry.due().is_some_and(|at| at <= now);
        let due = self.entries.iter_mut().filter(|(_, entry)| is_due(entry));
        let take = |(id, entry): (&u64, &mut Entry)| match std::mem::replace(&mut entry.fate, Fate::LookedFor)
        {
            Fate::Awaited(weak) => Some((*id, weak)),
            _ => None,
        };
        Due(due.filter_map(take).collect())
    }

    /// What is to be said of those who were looked for, and of those who waited for them.
    pub(super) fn judge(&mut self, looked: Looked) -> Vec<Leak> {
        for (id, weak) in looked.0 {
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            self.looks += 1;
            entry.found += usize::from(weak.is_some());
            entry.fate = match weak {
                Some(weak) if entry.found < LOOKS_NS.len() => Fate::Awaited(weak),
                Some(_) => Fate::Decided(LeakVerdict::Leaked),
                None if entry.found > 0 => Fate::Decided(LeakVerdict::FreedLate),
                None => {
                    self.entries.remove(&id);
                    continue;
                }
            };
        }
        let mut leaks = Vec::new();
        // Each says something to those who belong to it, who may have come before it.
        while let Some((id, verdict)) = self.next_to_speak_of() {
            let Some(entry) = self.entries.remove(&id) else { continue };
            let age = Duration::from_nanos(entry.last_seen());
            if !entry.parent.is_some_and(|parent| self.mentioned.contains(&parent)) {
                leaks.push(Leak { label: entry.label, verdict, age });
            }
            self.mentioned.insert(id);
        }
        leaks
    }

    /// The first whose fate is decided, and of whose parent all is known.
    fn next_to_speak_of(&self) -> Option<(u64, LeakVerdict)> {
        self.entries.iter().find_map(|(id, entry)| match entry.fate {
            Fate::Decided(verdict)
                if !entry.parent.is_some_and(|parent| self.entries.contains_key(&parent)) =>
            {
                Some((*id, verdict))
            }
            _ => None,
        })
    }
}

impl Entry {
    fn due(&self) -> Option<u64> {
        match self.fate {
            Fate::Awaited(_) => Some(self.since.saturating_add(*LOOKS_NS.get(self.found)?)),
            _ => None,
        }
    }

    fn last_seen(&self) -> u64 {
        self.found.checked_sub(1).and_then(|look| LOOKS_NS.get(look)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const SECOND: u64 = 1_000_000_000;

    /// Looks whenever it is time to, until then.
    fn look_until(book: &mut Book, until: u64) -> Vec<(u64, Leak)> {
        let mut told = Vec::new();
        while let Some(at) = book.next_look().filter(|at| *at <= until) {
            assert!(book.take_due(at - 1).is_empty(), "not before");
            let looked = book.take_due(at).look();
            told.extend(book.judge(looked).into_iter().map(|leak| (at, leak)));
        }
        told
    }

    fn leak(label: &str, verdict: LeakVerdict, seconds: u64) -> Leak {
        Leak { label: label.into(), verdict, age: Duration::from_secs(seconds) }
    }

    fn expect(
        book: &mut Book,
        object: &Arc<u8>,
        label: &str,
        parent: Option<&Expected>,
        now: u64,
    ) -> Expected {
        book.expect(Box::new(Arc::downgrade(object)), label.into(), parent, now)
    }

    #[test]
    fn of_what_is_gone_in_time_nothing_is_said() {
        let mut book = Book::default();
        let object = Arc::new(1);
        expect(&mut book, &object, "object", None, 5 * SECOND);
        assert_eq!(book.next_look(), Some(7 * SECOND));
        drop(object);
        assert_eq!(look_until(&mut book, 100 * SECOND), []);
        assert_eq!((book.pending(), book.next_look()), (0, None));
    }

    #[test]
    fn what_is_there_at_each_look_has_leaked_and_is_told_once() {
        let mut book = Book::default();
        let object = Arc::new(1);
        expect(&mut book, &object, "object", None, 0);
        assert_eq!(look_until(&mut book, 59 * SECOND), []);
        assert_eq!(
            look_until(&mut book, 600 * SECOND),
            [(60 * SECOND, leak("object", LeakVerdict::Leaked, 60))]
        );
        assert_eq!((book.looks(), book.next_look()), (3, None), "two, ten and sixty seconds");
    }

    #[test]
    fn what_is_gone_at_a_later_look_was_freed_late() {
        for (last_seen, noticed) in [(2, 10), (10, 60)] {
            let mut book = Book::default();
            let object = Arc::new(1);
            expect(&mut book, &object, "object", None, 0);
            assert_eq!(look_until(&mut book, last_seen * SECOND), []);
            drop(object);
            let late = leak("object", LeakVerdict::FreedLate, last_seen);
            assert_eq!(look_until(&mut book, 600 * SECOND), [(noticed * SECOND, late)]);
        }
    }

    #[test]
    fn what_belongs_to_a_leak_is_not_mentioned_whichever_was_expected_first() {
        let mut book = Book::default();
        let object = Arc::new(1);
        let parent = expect(&mut book, &object, "parent", None, 0);
        let child = expect(&mut book, &object, "child", Some(&parent), 0);
        expect(&mut book, &object, "grandchild", Some(&child), 3 * SECOND);
        let told = look_until(&mut book, 61 * SECOND);
        assert_eq!(told, [(60 * SECOND, leak("parent", LeakVerdict::Leaked, 60))]);
        // Of the parent all was said long ago.
        expect(&mut book, &object, "late child", Some(&parent), 100 * SECOND);
        assert_eq!(look_until(&mut book, 600 * SECOND), []);
    }

    #[test]
    fn a_verdict_waits_for_the_parents() {
        let mut book = Book::default();
        let (object, other) = (Arc::new(1), Arc::new(2));
        // The parent is expected to go later than what belongs to it.
        let parent = expect(&mut book, &object, "parent", None, 30 * SECOND);
        expect(&mut book, &other, "child", Some(&parent), 0);
        assert_eq!(look_until(&mut book, 89 * SECOND), [], "the child's last look was at 60 s");
        drop(object);
        // It was there at 32 s and at 40 s.
        assert_eq!(
            look_until(&mut book, 600 * SECOND),
            [(90 * SECOND, leak("parent", LeakVerdict::FreedLate, 10))]
        );
    }

    #[test]
    fn what_belonged_to_something_that_is_gone_in_time_is_told_by_itself() {
        let mut book = Book::default();
        let (object, kept) = (Arc::new(1), Arc::new(2));
        let parent = expect(&mut book, &object, "parent", None, 0);
        expect(&mut book, &kept, "child", Some(&parent), 0);
        drop(object);
        assert_eq!(
            look_until(&mut book, 600 * SECOND),
            [(60 * SECOND, leak("child", LeakVerdict::Leaked, 60))]
        );
    }
}
