//! Where threads are held one at a time, nothing is kept for all of them.

/// Room for threads that are held together: none.
#[derive(Debug)]
pub(in super::super) struct Hall<const THREADS: usize, const ARENA: usize>;

impl<const THREADS: usize, const ARENA: usize> Hall<THREADS, ARENA> {
    pub(in super::super) const EMPTY: Self = Self;
}
