//! Which of the freezes with the same stack get a record of their own: the first, the second, and then fewer and fewer, with
//! Fibonacci's numbers as gaps. The others are counted in the latest record.

/// How many stacks are remembered. Of more, the one that was met least lately is forgotten.
const STACKS: usize = 64;

/// A stack, how often it was met, and when it is reported next.
#[derive(Debug)]
struct Known<T> {
    stack: u64,
    met: u64,
    next: u64,
    /// This gap and the one before.
    gaps: (u64, u64),
    /// When it was met last.
    turn: u64,
    record: Option<T>,
}

/// Remembers stacks by their numbers, and the latest record of each.
#[derive(Debug)]
pub(crate) struct Annealing<T> {
    known: Vec<Known<T>>,
    turn: u64,
}

impl<T> Annealing<T> {
    /// Nothing was met yet. Does not allocate later.
    pub(crate) fn new() -> Self {
        Self { known: Vec::with_capacity(STACKS), turn: 0 }
    }

    /// A freeze with this stack: whether it gets a record of its own.
    pub(crate) fn meet(&mut self, stack: u64) -> bool {
        self.turn += 1;
        let turn = self.turn;
        let Some(known) = self.known.iter_mut().find(|known| known.stack == stack) else {
            if self.known.len() == STACKS
                && let Some(oldest) = (0..STACKS).min_by_key(|at| self.known[*at].turn)
            {
                self.known.swap_remove(oldest);
            }
            self.known.push(Known { stack, met: 1, next: 2, gaps: (1, 1), turn, record: None });
            return true;
        };
        known.met += 1;
        known.turn = turn;
        let due = known.met >= known.next;
        if due {
            known.gaps = (known.gaps.1, known.gaps.0 + known.gaps.1);
            known.next = known.met + known.gaps.1;
        }
        due
    }

    /// Keeps the latest record of a stack.
    pub(crate) fn keep(&mut self, stack: u64, record: T) {
        if let Some(known) = self.known.iter_mut().find(|known| known.stack == stack) {
            known.record = Some(record);
        }
    }

    /// The latest record of a stack.
    pub(crate) fn record(&mut self, stack: u64) -> Option<&mut T> {
        self.known.iter_mut().find(|known| known.stack == stack)?.record.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gaps_between_reports_of_one_stack_are_fibonaccis_numbers() {
        let mut annealing = Annealing::<()>::new();
        let reported: Vec<u32> = (1..=60).filter(|_| annealing.meet(7)).collect();
        assert_eq!(reported, [1, 2, 4, 7, 12, 20, 33, 54]);
    }

    #[test]
    fn stacks_do_not_count_for_each_other_and_the_one_met_least_lately_is_forgotten() {
        let mut annealing = Annealing::new();
        for stack in 0..64 {
            assert!(annealing.meet(stack));
            annealing.keep(stack, stack * 10);
        }
        assert!(annealing.meet(0) && !annealing.meet(0), "the second is reported, the third is not");
        assert!(annealing.meet(64), "a new one takes the place of 1");
        assert_eq!(annealing.record(0), Some(&mut 0));
        assert_eq!(annealing.record(1), None);
        assert!(annealing.meet(1), "as if for the first time");
    }
}
