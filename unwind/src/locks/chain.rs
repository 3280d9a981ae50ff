//! From who waits to who is waited for, and so on.

use crate::threads::ThreadId;

/// Where a chain of waits leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainEnd {
    /// To a thread that waits for no other that is known: it runs, waits for something else, or for a lock that does not
    /// say whose it is.
    Thread(ThreadId),
    /// Back to one of its own threads: none of so many will ever go on.
    Ring {
        /// A thread of the ring: the one by which the chain comes into it.
        thread: ThreadId,
        /// How many threads it has. A thread that waits for itself is a ring of one.
        threads: usize,
    },
}

/// A chain of waits from a thread on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// How many waits lead from the thread to the end, or into the ring.
    pub waits: usize,
    /// Where they lead.
    pub end: ChainEnd,
}

impl Chain {
    /// Follows the waits from `start` on. `waits_for` says whom a thread waits for; it must always say the same.
    ///
    /// # Signal safety
    /// Safe if `waits_for` is.
    pub fn follow(start: ThreadId, waits_for: impl Fn(ThreadId) -> Option<ThreadId>) -> Self {
        // Brent's way: `mark` waits until the other has gone as far as twice as often, and then sits down there.
        let (mut mark, mut thread) = (start, start);
        let (mut far, mut limit, mut waits) = (0usize, 1usize, 0usize);
        let ring = loop {
            let Some(next) = waits_for(thread) else {
                return Self { waits, end: ChainEnd::Thread(thread) };
            };
            (thread, far, waits) = (next, far.saturating_add(1), waits.saturating_add(1));
            if thread == mark {
                break far;
            }
            if far == limit {
                (mark, far, limit) = (thread, 0, limit.saturating_mul(2));
            }
        };
        // Two that go at the distance of the ring's length meet where it begins.
        let step = |thread: ThreadId| waits_for(thread).unwrap_or(thread);
        let mut ahead = start;
        for _ in 0..ring {
            ahead = step(ahead);
        }
        let (mut behind, mut into) = (start, 0usize);
        while behind != ahead && into < waits {
            (behind, ahead, into) = (step(behind), step(ahead), into.saturating_add(1));
        }
        Self { waits: into, end: ChainEnd::Ring { thread: behind, threads: ring } }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn follow(links: &[(i32, i32)], start: i32) -> Chain {
        let next = |thread: ThreadId| {
            let link = links.iter().find(|(from, _)| *from == thread.0);
            link.map(|(_, to)| ThreadId(*to))
        };
        Chain::follow(ThreadId(start), next)
    }

    #[test]
    fn a_chain_ends_at_who_waits_for_nobody() {
        let links = [(1, 2), (2, 3), (3, 4)];
        assert_eq!(follow(&links, 1), Chain { waits: 3, end: ChainEnd::Thread(ThreadId(4)) });
        assert_eq!(follow(&links, 4), Chain { waits: 0, end: ChainEnd::Thread(ThreadId(4)) });
    }

    #[test]
    fn every_ring_is_found_with_its_length_and_the_thread_that_leads_into_it() {
        for lead in 0..20 {
            for ring in 1..20 {
                let mut links: Vec<(i32, i32)> =
                    (0..lead + ring - 1).map(|thread| (thread, thread + 1)).collect();
                links.push((lead + ring - 1, lead));
                let expected = Chain {
                    waits: lead as usize,
                    end: ChainEnd::Ring { thread: ThreadId(lead), threads: ring as usize },
                };
                assert_eq!(follow(&links, 0), expected, "{lead} {ring}");
            }
        }
    }
}
