//! Where a stack repeats: recursion, direct or through several functions.

use super::Frame;
use freezeframe_arch::PacMask;

/// The longest part of a stack that repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// The innermost frame of the repeating part, counted over the whole stack.
    pub first: u64,
    /// How many frames make one round: 1 for a function that calls itself.
    pub period: u32,
    /// How many whole rounds there are.
    pub times: u64,
}

/// The longest repetition in frames that are all at hand. Return addresses are compared without their authentication
/// codes, which differ from frame to frame.
pub(super) fn find(frames: &[Frame], pac: PacMask) -> Option<Repeat> {
    if !may_repeat(frames, pac) {
        return None;
    }
    RepeatFinder::after(frames, pac).best()
}

/// False if nothing repeats: found with two comparisons a frame instead of one for each period.
///
/// A repetition worth a mark has two periods or more of frames in a row that equal the one a period earlier, so it is
/// enough to try one frame in every two periods.
fn may_repeat(frames: &[Frame], pac: PacMask) -> bool {
    let pc = |number: usize| frames.get(number).map(|frame| frame.address.raw());
    // What codes may differ in is left out of the comparison.
    let code = !pac.bits();
    let same = |one: u64, other: Option<u64>| other.is_some_and(|other| (one ^ other) & code == 0);
    (1..=RepeatFinder::LONGEST_PERIOD).any(|period| {
        let (mut earlier, mut found) = (0usize, false);
        // Not by an iterator of chunks or steps: those divide first, which takes longer than all that follows.
        while let Some(later) = pc(earlier.wrapping_add(period)) {
            found |= same(later, pc(earlier));
            earlier = earlier.wrapping_add(period.wrapping_mul(2));
        }
        found
    })
}

/// Finds the longest repetition in a stream of addresses, in constant memory.
#[derive(Debug)]
pub(super) struct RepeatFinder {
    /// The latest addresses, the newest first.
    recent: [u64; RepeatFinder::LONGEST_PERIOD],
    /// For each period, how many of the latest addresses in a row equalled the one a period earlier.
    runs: [u64; RepeatFinder::LONGEST_PERIOD],
    seen: u64,
    best: Option<Repeat>,
    best_length: u64,
}

impl RepeatFinder {
    const LONGEST_PERIOD: usize = 16;
    /// Fewer rounds are not worth a mark.
    const FEWEST_ROUNDS: u64 = 3;

    const fn new() -> Self {
        Self {
            recent: [0; Self::LONGEST_PERIOD],
            runs: [0; Self::LONGEST_PERIOD],
            seen: 0,
            best: None,
            best_length: 0,
        }
    }

    /// A finder that has seen `frames`.
    pub(super) fn after(frames: &[Frame], pac: PacMask) -> Self {
        let mut finder = Self::new();
        frames.iter().for_each(|frame| finder.push(pac.strip(frame.address.raw())));
        finder
    }

    pub(super) fn push(&mut self, pc: u64) {
        self.seen = self.seen.saturating_add(1);
        for ((earlier, run), period) in self.recent.iter().zip(&mut self.runs).zip(1u64..) {
            if *earlier != pc || period >= self.seen {
                *run = 0;
                continue;
            }
            *run = run.saturating_add(1);
            let length = run.saturating_add(period);
            // Strictly longer: of periods that cover the same frames the shortest, which comes first, is kept.
            if length > self.best_length && length >= period.saturating_mul(Self::FEWEST_ROUNDS) {
                self.best_length = length;
                let times = length.checked_div(period).unwrap_or(0);
                let first = self.seen.saturating_sub(length);
                self.best = Some(Repeat { first, period: period as u32, times });
            }
        }
        self.recent.rotate_right(1);
        if let Some(newest) = self.recent.first_mut() {
            *newest = pc;
        }
    }

    pub(super) const fn best(&self) -> Option<Repeat> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::rule::FrameAddress;
    use std::vec::Vec;

    fn find(pcs: impl IntoIterator<Item = u64>) -> Option<(u64, u32, u64)> {
        let mut finder = RepeatFinder::new();
        pcs.into_iter().for_each(|pc| finder.push(pc));
        finder.best().map(|Repeat { first, period, times }| (first, period, times))
    }

    #[test]
    fn direct_and_mutual_recursion_are_found_with_exact_counts() {
        assert_eq!(find([1, 2, 3, 4, 5]), None);
        assert_eq!(find([1, 2, 2, 3]), None, "twice is not worth a mark");
        assert_eq!(find([1, 2, 2, 2, 3]), Some((1, 1, 3)));
        assert_eq!(find([9].into_iter().chain((0..10_000).map(|n| n % 3)).chain([8, 7])), Some((1, 3, 3333)));
        assert_eq!(find((0..64).map(|n| n % 16)), Some((0, 16, 4)));
        assert_eq!(find((0..340).map(|n| n % 17)), None, "a period longer than the finder's memory");
    }

    fn frames(pcs: impl IntoIterator<Item = u64>) -> Vec<Frame> {
        let frame = |pc| Frame { address: FrameAddress::ReturnAddress(pc), ..Frame::EMPTY };
        pcs.into_iter().map(frame).collect()
    }

    #[test]
    fn no_repetition_worth_a_mark_slips_through_the_short_cut() {
        for period in 1..=RepeatFinder::LONGEST_PERIOD as u64 {
            for before in 0..70 {
                let rounds = (0..3 * period).map(|n| 1000 + n % period);
                let stack = frames((0..before).chain(rounds).chain(500..520));
                let expected = Repeat { first: before, period: period as u32, times: 3 };
                assert_eq!(super::find(&stack, PacMask::NONE), Some(expected));
            }
        }
        for bits in 0..1 << 14 {
            let stack = frames((0..14).map(|n| bits >> n & 1));
            assert_eq!(
                super::find(&stack, PacMask::NONE),
                RepeatFinder::after(&stack, PacMask::NONE).best(),
                "{bits:b}"
            );
        }
        assert!(!may_repeat(&frames(0..1000), PacMask::NONE), "the short cut is one");
        assert!(!may_repeat(&[], PacMask::NONE));
    }

    #[test]
    fn the_longest_repetition_wins() {
        let two_runs = [1; 5].into_iter().chain([7]).chain([2; 9]).chain([8]).chain([3; 4]);
        assert_eq!(find(two_runs), Some((6, 1, 9)));
    }

    #[test]
    fn addresses_of_zero_do_not_match_the_empty_memory() {
        assert_eq!(find([0, 0]), None);
        assert_eq!(find([0, 0, 0]), Some((0, 1, 3)));
    }
}
