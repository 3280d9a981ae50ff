//! The locks that threads wait for, and the rings that they wait in.

use super::cursor::Cursor;
use super::record::{LockInfo, LockOwner, LockStep, Thread};
use freezeframe_unwind::locks::{Chain, ChainEnd, LockKind};
use freezeframe_unwind::threads::ThreadId;
use std::collections::HashMap;

/// The end of a thread's section; records before 1.2 do not have it.
pub(super) fn lock(c: &mut Cursor<'_>) -> Option<LockInfo> {
    let (kind, owner_kind, owner, address) = (c.u8()?, c.u8()?, c.u32()?, c.u64()?);
    (kind != 0).then(|| LockInfo {
        kind: LockKind::from_code(kind).map_or("lock", LockKind::name),
        address,
        owner: match owner_kind {
            1 => LockOwner::Thread(owner),
            2 => LockOwner::Ended(owner),
            3 => LockOwner::Readers(owner),
            _ => LockOwner::Unknown,
        },
    })
}

/// Who waits for whom.
pub(super) struct Waits(HashMap<u32, LockStep>);

impl Waits {
    pub(super) fn of(threads: &[Thread]) -> Self {
        Self(threads.iter().filter_map(|thread| Some((thread.id, step(thread)?))).collect())
    }

    /// From a thread to the last of those that it waits for, each with its lock; once round, if they wait in a ring.
    pub(super) fn chain(&self, from: u32) -> Vec<LockStep> {
        let next = |thread: ThreadId| Some(ThreadId(self.0.get(&(thread.0 as u32))?.waits_for as i32));
        let chain = Chain::follow(ThreadId(from as i32), next);
        let ring = match chain.end {
            ChainEnd::Thread(_) => 0,
            ChainEnd::Ring { threads, .. } => threads,
        };
        self.from(from).take(chain.waits.saturating_add(ring)).collect()
    }

    /// Every ring of threads that wait for one another, in the order of `threads`.
    pub(super) fn rings(&self, threads: impl Iterator<Item = u32>) -> Vec<Vec<LockStep>> {
        let mut rings = Vec::new();
        // By which start a thread was seen first: each is passed once.
        let mut seen: HashMap<u32, usize> = HashMap::new();
        for (start, thread) in threads.enumerate() {
            let mut at = thread;
            while let (None, Some(step)) = (seen.get(&at), self.0.get(&at)) {
                seen.insert(at, start);
                at = step.waits_for;
            }
            // Back to where this very walk has been.
            if seen.get(&at) == Some(&start) {
                let others = self.from(at).skip(1).take_while(|step| step.thread != at);
                rings.push(self.from(at).take(1).chain(others).collect());
            }
        }
        rings
    }

    fn from(&self, start: u32) -> impl Iterator<Item = LockStep> + '_ {
        std::iter::successors(self.0.get(&start), |step| self.0.get(&step.waits_for)).cloned()
    }
}

fn step(thread: &Thread) -> Option<LockStep> {
    let lock = thread.lock.as_ref()?;
    match lock.owner {
        LockOwner::Thread(owner) => {
            Some(LockStep { thread: thread.id, waits_for: owner, kind: lock.kind, address: lock.address })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads that wait for those behind the arrows.
    fn waits(links: &[(u32, u32)]) -> Waits {
        let step = |(thread, waits_for): &(u32, u32)| {
            (*thread, LockStep { thread: *thread, kind: "mutex", address: 0x1000, waits_for: *waits_for })
        };
        Waits(links.iter().map(step).collect())
    }

    fn rings(links: &[(u32, u32)], threads: &[u32]) -> Vec<Vec<u32>> {
        let rings = waits(links).rings(threads.iter().copied());
        rings.iter().map(|ring| ring.iter().map(|step| step.thread).collect()).collect()
    }

    #[test]
    fn each_ring_is_found_once_however_many_threads_lead_into_it() {
        let links = [(1, 2), (2, 3), (3, 4), (4, 2), (5, 3), (6, 7), (7, 6), (8, 8), (9, 10)];
        let all = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
        assert_eq!(rings(&links, &all), [vec![2, 3, 4], vec![6, 7], vec![8]]);
        let mut backwards = all;
        backwards.reverse();
        assert_eq!(rings(&links, &backwards), [vec![8], vec![7, 6], vec![3, 4, 2]]);
    }

    #[test]
    fn a_chain_ends_at_who_waits_for_nobody_or_once_round_its_ring() {
        let chain = |links: &[(u32, u32)], from| -> Vec<(u32, u32)> {
            waits(links).chain(from).iter().map(|step| (step.thread, step.waits_for)).collect()
        };
        assert_eq!(chain(&[(1, 2), (2, 3)], 1), [(1, 2), (2, 3)]);
        assert_eq!(chain(&[(1, 2), (2, 3)], 3), []);
        assert_eq!(chain(&[(1, 2), (2, 3), (3, 2)], 1), [(1, 2), (2, 3), (3, 2)]);
        assert_eq!(chain(&[(1, 1)], 1), [(1, 1)]);
    }

    #[test]
    fn a_long_chain_that_many_threads_lead_into_takes_no_longer_than_its_length() {
        const THREADS: u32 = 100_000;
        let mut links: Vec<(u32, u32)> = (1..THREADS).map(|thread| (thread, thread + 1)).collect();
        links.extend((THREADS + 1..2 * THREADS).map(|thread| (thread, 1)));
        let threads: Vec<u32> = (1..2 * THREADS).rev().collect();
        assert!(rings(&links, &threads).is_empty());
    }
}
