//! What the watched thread does while it is silent: samples, folded into a tree of frames.
//!
//! ```text
//! main ─ run ─┬─ draw ─ decode        samples 1, 2      heaviest: it leads
//!             └─ save ─ write         sample 3
//! ```

mod schedule;

pub(crate) use schedule::Schedule;

use freezeframe_report::encode::{NO_NODE, Node, Sample};

/// A frame of a sample's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The address as it was found, with origin and trust as in a record; origin 0: frames are left out here.
    pub(crate) address: u64,
    pub(crate) origin: u8,
    pub(crate) trust: u8,
    /// Where its function begins, if that is known; else the address.
    pub(crate) function: u64,
}

/// What a sample says beside its stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) at_ns: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) state: u8,
    pub(crate) system_call: u32,
}

/// How many samples are kept; in a day there are fewer.
const SAMPLES: usize = 128;
/// How many frames they share.
const NODES: usize = 1000;

/// The samples of one silence. All of its memory is there from the start.
#[derive(Debug)]
pub(crate) struct Samples {
    samples: Vec<Sample>,
    nodes: Vec<Node>,
    /// What each folded stack's functions add up to.
    stacks: Vec<u64>,
    pub(crate) moved: u32,
    left_out: u32,
}

impl Samples {
    pub(crate) fn new() -> Self {
        Self {
            samples: Vec::with_capacity(SAMPLES),
            nodes: Vec::with_capacity(NODES),
            stacks: Vec::with_capacity(SAMPLES),
            moved: 0,
            left_out: 0,
        }
    }

    /// Forgets them.
    pub(crate) fn clear(&mut self) {
        self.samples.clear();
        self.nodes.clear();
        self.stacks.clear();
        (self.moved, self.left_out) = (0, 0);
    }

    /// Adds a sample, whose stack is given from the innermost frame on.
    pub(crate) fn add(&mut self, look: Look, stack: &[Place]) {
        if self.samples.len() == SAMPLES {
            return;
        }
        let node = self.insert(stack);
        // FNV-1a over the functions, from the innermost on.
        let folded = stack.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, place| {
            (hash ^ place.function).wrapping_mul(0x0100_0000_01b3)
        });
        let number = match self.stacks.iter().position(|known| *known == folded) {
            Some(number) => number,
            None => {
                self.stacks.push(folded);
                self.stacks.len() - 1
            }
        };
        self.samples.push(Sample {
            at_ns: look.at_ns,
            weight_ns: 0,
            cpu_ns: look.cpu_ns,
            node,
            stack: number as u16,
            state: look.state,
            system_call: look.system_call,
        });
    }

    /// Puts a stack into the tree, from the outermost frame on; returns the node of the innermost.
    fn insert(&mut self, stack: &[Place]) -> u16 {
        let mut parent = NO_NODE;
        for (at, place) in stack.iter().enumerate().rev() {
            let same = |node: &Node| node.parent == parent && node.address == place.address;
            // Callees come behind their callers.
            let from = if parent == NO_NODE { 0 } else { usize::from(parent) + 1 };
            let found = self.nodes.get(from..).and_then(|nodes| nodes.iter().position(same));
            parent = match found {
                Some(found) => (from + found) as u16,
                None if self.nodes.len() < NODES => {
                    let Place { address, origin, trust, .. } = *place;
                    self.nodes.push(Node { address, parent, origin, trust });
                    (self.nodes.len() - 1) as u16
                }
                None => {
                    self.left_out = self.left_out.saturating_add(at as u32 + 1);
                    return NO_NODE;
                }
            };
        }
        parent
    }

    /// Gives each sample the time that it stands for, now that the silence has lasted so long: to the middle between it and
    /// its neighbours, to the start, and to the end.
    pub(crate) fn weigh(&mut self, lasted_ns: u64) {
        let mut from = 0;
        for at in 0..self.samples.len() {
            let own = self.samples[at].at_ns;
            let until = match self.samples.get(at + 1) {
                Some(next) => own + next.at_ns.saturating_sub(own) / 2,
                None => lasted_ns.max(own),
            };
            self.samples[at].weight_ns = until.saturating_sub(from);
            from = until;
        }
    }

    /// The folded stack that the most time stands for, once they are weighed.
    pub(crate) fn heaviest(&self) -> Option<u64> {
        let weight = |number: usize| {
            let own = self.samples.iter().filter(|s| usize::from(s.stack) == number && s.node != NO_NODE);
            own.map(|sample| sample.weight_ns).sum::<u64>()
        };
        let heaviest =
            (0..self.stacks.len()).max_by_key(|number| (weight(*number), std::cmp::Reverse(*number)))?;
        (weight(heaviest) > 0).then(|| self.stacks[heaviest])
    }

    /// As the record has them.
    pub(crate) fn view(&self) -> freezeframe_report::encode::Samples<'_> {
        freezeframe_report::encode::Samples {
            samples: &self.samples,
            nodes: &self.nodes,
            moved: self.moved,
            left_out: self.left_out,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(address: u64, function: u64) -> Place {
        Place { address, origin: 2, trust: 3, function }
    }

    fn look(at_ns: u64) -> Look {
        Look { at_ns, cpu_ns: 0, state: 1, system_call: u32::MAX }
    }

    #[test]
    fn stacks_share_their_callers_and_fold_by_function() {
        let mut samples = Samples::new();
        let outer = [place(30, 3), place(20, 2)];
        let stack = |inner| [inner, outer[0], outer[1]];
        samples.add(look(150), &stack(place(41, 4)));
        samples.add(look(200), &stack(place(45, 4)));
        samples.add(look(250), &stack(place(50, 5)));
        samples.weigh(260);
        let view = samples.view();
        assert_eq!(view.nodes.len(), 5, "two callers and three innermost frames");
        assert!(
            view.nodes
                .iter()
                .enumerate()
                .all(|(at, node)| node.parent == NO_NODE || (node.parent as usize) < at)
        );
        let stacks: Vec<u16> = view.samples.iter().map(|sample| sample.stack).collect();
        assert_eq!(stacks, [0, 0, 1], "the same functions, wherever in them");
        let weights: Vec<u64> = view.samples.iter().map(|sample| sample.weight_ns).collect();
        assert_eq!(weights, [175, 50, 35]);
        assert_eq!(weights.iter().sum::<u64>(), 260, "all of the time, and no more");
    }

    #[test]
    fn the_heaviest_stack_is_the_one_that_lasted_longest_not_the_one_seen_last() {
        let mut samples = Samples::new();
        samples.add(look(150), &[place(1, 1)]);
        let only = samples.heaviest();
        assert_eq!(only, None, "not weighed yet");
        samples.add(look(1000), &[place(2, 2)]);
        samples.weigh(1010);
        let first = samples.stacks[0];
        assert_eq!(samples.heaviest(), Some(first));
        samples.weigh(3000);
        assert_ne!(samples.heaviest(), Some(first));
    }

    #[test]
    fn what_does_not_fit_is_counted_and_nothing_grows() {
        let mut samples = Samples::new();
        for n in 0..200 {
            let deep: Vec<Place> = (0..50).map(|m| place(n * 1000 + m, m)).collect();
            samples.add(look(n), &deep);
        }
        let view = samples.view();
        assert_eq!((view.samples.len(), view.nodes.len()), (SAMPLES, NODES));
        assert_eq!(view.left_out, (SAMPLES as u32 - 20) * 50);
        assert!(samples.samples.capacity() == SAMPLES && samples.nodes.capacity() == NODES);
    }
}
