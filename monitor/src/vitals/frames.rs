//! How many frames a second a program draws.

use crate::clock::now;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many frames are remembered.
const STAMPS: usize = 60;
const SECOND_NS: u64 = 1_000_000_000;

/// Counts frames. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Frames(Arc<Ring>);

/// When the latest frames were drawn. Zero: none yet.
///
/// Every stamp is whole by itself, and that is all a reader needs: it goes by how many of them are how old, not by their
/// order. One that is overwritten meanwhile counts as the older or as the newer frame.
#[derive(Debug)]
struct Ring {
    next: AtomicUsize,
    stamps: [AtomicU64; STAMPS],
}

impl Default for Ring {
    fn default() -> Self {
        Self { next: AtomicUsize::new(0), stamps: [const { AtomicU64::new(0) }; STAMPS] }
    }
}

impl Frames {
    /// No frame yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A frame was drawn: to be called by the thread that draws, at each one. A read of the clock and two atomic operations,
    /// about 30 ns; never waits.
    pub fn tick(&self) {
        self.tick_at(now());
    }

    fn tick_at(&self, now_ns: u64) {
        let next = self.0.next.fetch_add(1, Ordering::Relaxed);
        if let Some(stamp) = self.0.stamps.get(next % STAMPS) {
            stamp.store(now_ns, Ordering::Relaxed);
        }
    }

    /// The frames of the second before `at_ns`; none if none was ever drawn by then. Where the stamps do not reach back for
    /// a second, the frames since the first of them make the rate.
    pub(crate) fn per_second(&self, at_ns: u64) -> Option<f64> {
        let (mut seen, mut count, mut oldest, mut newest) = (false, 0usize, u64::MAX, 0u64);
        let stamps = self.0.stamps.iter().map(|stamp| stamp.load(Ordering::Relaxed));
        for stamp in stamps.filter(|stamp| *stamp != 0 && *stamp <= at_ns) {
            seen = true;
            if at_ns - stamp < SECOND_NS {
                (count, oldest, newest) = (count + 1, oldest.min(stamp), newest.max(stamp));
            }
        }
        if count < STAMPS {
            return seen.then_some(count as f64);
        }
        // So many distances lie between the stamps. If the next frame is overdue, the time since counts as well.
        let distances = (STAMPS - 1) as u64;
        let end = newest.max(at_ns.saturating_sub(newest.saturating_sub(oldest) / distances));
        Some(distances as f64 * SECOND_NS as f64 / end.saturating_sub(oldest).max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The rate at `at_ms`, if frames were drawn at these times.
    fn rate(frames_us: impl Iterator<Item = u64>, at_ms: u64) -> Option<f64> {
        let frames = Frames::new();
        frames_us.for_each(|at| frames.tick_at(at * 1000));
        frames.per_second(at_ms * MS)
    }

    /// A frame every so many microseconds, for so many milliseconds, from the fifth second on.
    fn every(step_us: u64, for_ms: u64) -> impl Iterator<Item = u64> {
        (0..).map(move |n| 5_000_000 + n * step_us).take_while(move |at| *at < 5_000_000 + for_ms * 1000)
    }

    #[test]
    fn the_rate_is_that_of_the_second_before() {
        assert_eq!(rate(std::iter::empty(), 5_000), None, "nobody draws");
        assert_eq!(rate(every(33_333, 3_000), 8_000), Some(30.0));
        assert_eq!(rate(every(100_000, 3_001), 8_000), Some(10.0));
        let sixty = rate(every(16_667, 3_000), 8_000).unwrap();
        assert!((59.9..60.1).contains(&sixty), "{sixty}");
    }

    #[test]
    fn a_display_that_is_faster_than_the_stamps_reach_is_told_right() {
        for hertz in [75, 90, 120, 144, 240, 1000] {
            let told = rate(every(1_000_000 / hertz, 3_000), 8_000).unwrap();
            assert!((told - hertz as f64).abs() < hertz as f64 * 0.02, "{told} of {hertz}");
        }
    }

    #[test]
    fn frames_that_do_not_come_lower_the_rate_until_it_is_zero() {
        assert_eq!(rate(every(33_333, 3_000), 8_500), Some(15.0));
        assert_eq!(rate(every(33_333, 3_000), 9_500), Some(0.0));
        let half = rate(every(8_333, 3_000), 8_500).unwrap();
        assert!((55.0..62.0).contains(&half), "120 Hz for the first half: {half}");
        assert_eq!(rate(every(8_333, 3_000), 60_000), Some(0.0));
    }

    #[test]
    fn frames_that_were_drawn_later_do_not_count() {
        assert_eq!(rate(every(100_000, 3_000), 7_000), Some(10.0));
        assert_eq!(rate(every(100_000, 3_000), 4_000), None);
    }

    #[test]
    fn a_tick_is_cheap_and_clones_count_together() {
        let frames = Frames::new();
        let clone = frames.clone();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let frames = clone.clone();
                std::thread::spawn(move || (0..5).for_each(|_| frames.tick()))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(frames.per_second(now()), Some(20.0));
        let begun = now();
        (0..100_000).for_each(|_| frames.tick());
        let each = (now() - begun) / 100_000;
        assert!(each < 20_000, "{each} ns");
        println!("a tick: {each} ns");
    }
}
