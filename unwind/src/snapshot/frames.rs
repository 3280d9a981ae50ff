//! How the threads of a snapshot share its frames.

use crate::walk::{Depth, Frame};

/// The frames of a snapshot, given out from the beginning on.
#[derive(Debug)]
pub(super) struct Frames<'a> {
    pub(super) all: &'a mut [Frame],
    pub(super) used: usize,
}

/// A thread's part, where it begins, and how much of a stack it can hold.
#[derive(Debug)]
pub(super) struct Share<'a> {
    pub(super) start: usize,
    pub(super) storage: &'a mut [Frame],
    pub(super) depth: Depth,
}

impl Frames<'_> {
    /// The part of a thread: a fair one if `left` threads are still to come, this one included; half of everything for
    /// the first. What it does not use is the next one's.
    pub(super) fn share(&mut self, depth: Depth, first: bool, left: usize) -> Share<'_> {
        let frames = self.all.get_mut(self.used..).unwrap_or(&mut []);
        let share = frames.len().checked_div(if first { 2 } else { left }).unwrap_or(0);
        let room = depth.innermost.saturating_add(depth.outermost).min(share.max(1)).min(frames.len());
        let storage = frames.get_mut(..room).unwrap_or(&mut []);
        Share { start: self.used, storage, depth: fit(depth, room) }
    }
}

/// Both ends in proportion, when there is no room for all.
fn fit(depth: Depth, room: usize) -> Depth {
    let wanted = depth.innermost.saturating_add(depth.outermost);
    if wanted <= room {
        return depth;
    }
    let outermost = depth.outermost.saturating_mul(room).checked_div(wanted).unwrap_or(0);
    Depth { innermost: room.saturating_sub(outermost), outermost }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_gets_half_and_the_others_what_is_left_in_equal_parts() {
        let mut all = [Frame::EMPTY; 40];
        let mut frames = Frames { all: &mut all, used: 0 };
        let depth = Depth { innermost: 64, outermost: 32 };
        let first = frames.share(depth, true, 5);
        assert_eq!((first.start, first.storage.len()), (0, 20));
        assert_eq!(first.depth, Depth { innermost: 14, outermost: 6 }, "two thirds and a third");
        frames.used = 8;
        let second = frames.share(depth, false, 4);
        assert_eq!((second.start, second.storage.len()), (8, 8), "of what the first has left");
        frames.used = 40;
        let last = frames.share(depth, false, 1);
        assert_eq!((last.storage.len(), last.depth), (0, Depth { innermost: 0, outermost: 0 }));
        frames.used = 0;
        let few = Depth { innermost: 2, outermost: 1 };
        assert_eq!(frames.share(few, true, 9).depth, few, "no more than was asked for");
    }
}
