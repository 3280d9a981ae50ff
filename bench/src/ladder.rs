//! A deep stack of known functions.

use std::hint::black_box;

/// How many functions stand on the stack.
pub(crate) const RUNGS: usize = 64;

/// Functions of which each calls the next.
type Rung = fn(&mut dyn FnMut());

macro_rules! rungs {
    ($($number:literal)*) => { [$(rung::<$number>),*] };
}

static LADDER: [Rung; RUNGS] = rungs![
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
];

#[inline(never)]
fn rung<const NUMBER: usize>(top: &mut dyn FnMut()) {
    match LADDER.get(NUMBER + 1) {
        Some(next) => next(top),
        None => top(),
    }
    // Work after the call, so that it is none in tail position, and of each rung's own, so that no two are merged.
    black_box(NUMBER);
}

/// Calls `top` with all rungs on the stack. Beneath them lies a frame of `BELOW` bytes.
#[inline(never)]
pub(crate) fn climb<const BELOW: usize>(top: &mut dyn FnMut()) {
    let below = [0u8; BELOW];
    black_box(&below);
    LADDER[0](top);
    black_box(&below);
}

/// Whether each rung stands in a stack of addresses, innermost first, once and in its place.
pub(crate) fn check(walker: &str, pcs: &[u64]) -> Result<(), String> {
    let seen: Vec<usize> = pcs.iter().filter_map(|pc| rung_before(*pc)).collect();
    match seen.iter().copied().eq((0..RUNGS).rev()) {
        true => Ok(()),
        false => Err(format!("{walker}: not the {RUNGS} functions in their order, but {seen:?}")),
    }
}

/// The rung that holds the call which returns to `pc`.
fn rung_before(pc: u64) -> Option<usize> {
    /// No rung's code is longer.
    const LONGEST: u64 = 48;
    let starts = LADDER.iter().map(|rung| *rung as *const () as u64).enumerate();
    let (number, start) = starts.filter(|(_, start)| *start < pc).max_by_key(|(_, start)| *start)?;
    (pc - start <= LONGEST).then_some(number)
}
