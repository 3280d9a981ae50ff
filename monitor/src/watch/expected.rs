//! What the program has announced that it would block for, each announcement by itself.

use crate::hooks::Text;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why the program expects to block.
pub(crate) type Why = Text<64>;

/// The announcements of a monitor's owner, made and taken back by any thread in any order. In force is the one that ends
/// latest.
#[derive(Debug, Default)]
pub(crate) struct Expectations {
    /// When it ends; zero: there is none.
    until_ns: AtomicU64,
    /// When the last one was taken back that had not been exceeded, and none was in force any more.
    kept_ns: AtomicU64,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    next: u64,
    open: Vec<Announced>,
    /// The last one that was exceeded, and when it was taken back.
    exceeded: Option<(Announced, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Announced {
    number: u64,
    until_ns: u64,
    why: Why,
}

impl Book {
    fn latest_ns(&self) -> u64 {
        self.open.iter().map(|open| open.until_ns).max().unwrap_or(0)
    }
}

impl Expectations {
    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces; returns the announcement's number.
    pub(crate) fn announce(&self, until_ns: u64, why: &str) -> u64 {
        let mut book = self.lock();
        let number = book.next;
        book.next += 1;
        book.open.push(Announced { number, until_ns, why: Why::new(why) });
        self.until_ns.store(book.latest_ns(), Ordering::Release);
        number
    }

    /// Takes an announcement back.
    pub(crate) fn take_back(&self, number: u64, now_ns: u64) {
        let mut book = self.lock();
        let latest_ns = book.latest_ns();
        let Some(at) = book.open.iter().position(|open| open.number == number) else { return };
        let announced = book.open.swap_remove(at);
        let left_ns = book.latest_ns();
        if now_ns >= latest_ns {
            book.exceeded = Some((announced, now_ns));
        } else if now_ns >= left_ns {
            self.kept_ns.store(now_ns, Ordering::Relaxed);
        }
        // Released: who sees that nothing is in force any more sees that it was kept too.
        self.until_ns.store(left_ns, Ordering::Release);
    }

    /// Until when the program expects to block, and up to when silence was as expected. Zero: not at all.
    pub(crate) fn in_force(&self) -> (u64, u64) {
        let until_ns = self.until_ns.load(Ordering::Acquire);
        (until_ns, self.kept_ns.load(Ordering::Relaxed))
    }

    /// Why the program expected the silence since then, if it did: to be asked when that lasts for longer. Does not wait.
    pub(crate) fn reason(&self, since_ns: u64) -> Option<Why> {
        let book = self.book.try_lock().ok()?;
        let open = book.open.iter().filter(|open| open.until_ns > since_ns).max_by_key(|open| open.until_ns);
        let exceeded = || book.exceeded.as_ref().filter(|(of, at)| of.until_ns.min(*at) > since_ns);
        open.or_else(|| exceeded().map(|(announced, _)| announced)).map(|announced| announced.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_order_in_which_they_are_taken_back_the_latest_end_of_those_left_is_in_force() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let all = Expectations::default();
            let ends = [500, 3000, u64::MAX];
            let numbers = ends.map(|end| all.announce(end, &end.to_string()));
            let mut left = vec![0, 1, 2];
            for (at, which) in (1..).zip(order) {
                all.take_back(numbers[which], at);
                left.retain(|other| *other != which);
                let latest = left.iter().map(|which| ends[*which]).max().unwrap_or(0);
                assert_eq!(all.in_force(), (latest, if left.is_empty() { at } else { 0 }), "{order:?}");
                let why = all.reason(0).map(|why| why.as_str().to_owned());
                assert_eq!(why, (latest > 0).then(|| latest.to_string()));
            }
        }
    }

    #[test]
    fn one_that_was_exceeded_is_not_kept_and_its_reason_is_that_of_the_silence_it_was_in() {
        let all = Expectations::default();
        let number = all.announce(400, "opens the database");
        all.take_back(number, 410);
        assert_eq!(all.in_force(), (0, 0));
        assert_eq!(all.reason(100).unwrap().as_str(), "opens the database");
        assert!(all.reason(400).is_none(), "a later silence");
        all.announce(600, "one that was forgotten");
        assert!(all.reason(700).is_none(), "it had come to its end before");
    }
}
