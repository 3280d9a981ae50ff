//! What a walk meets in Rust: generics, closures, dynamic calls, panics that are caught after frames have cleaned up.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

#[inline(never)]
fn leaf(n: i64) -> i64 {
    black_box(n * 3 + 1)
}

struct Cleanup<'a>(&'a mut i64);

impl Drop for Cleanup<'_> {
    #[inline(never)]
    fn drop(&mut self) {
        *self.0 += leaf(1);
    }
}

#[inline(never)]
fn panics_at(depth: u32, cleaned: &mut i64) -> i64 {
    let cleanup = Cleanup(cleaned);
    if depth == 0 {
        let numbers: Vec<i64> = Vec::new();
        return numbers[black_box(3)];
    }
    panics_at(depth - 1, cleanup.0) + leaf(depth.into())
}

#[inline(never)]
fn apply<F: Fn(i64) -> i64>(function: F, n: i64) -> i64 {
    leaf(function(n))
}

#[inline(never)]
fn shown<T: Display>(values: &[T]) -> String {
    values.iter().map(|value| format!("<{value:>6}>")).collect::<Vec<_>>().join(", ")
}

trait Shape {
    fn area(&self) -> i64;
}

struct Square(i64);
struct Strip(i64, i64);

impl Shape for Square {
    #[inline(never)]
    fn area(&self) -> i64 {
        leaf(self.0) * self.0
    }
}

impl Shape for Strip {
    #[inline(never)]
    fn area(&self) -> i64 {
        leaf(self.0) * self.1
    }
}

fn main() {
    let mut cleaned = 0;
    let panicked = catch_unwind(AssertUnwindSafe(|| panics_at(4, &mut cleaned)));
    assert!(panicked.is_err());
    assert_eq!(cleaned, 20);
    let resumed = catch_unwind(AssertUnwindSafe(|| {
        let _cleanup = Cleanup(&mut cleaned);
        resume_unwind(Box::new(5_i64))
    }));
    assert_eq!(resumed.err().and_then(|payload| payload.downcast::<i64>().ok()), Some(Box::new(5)));

    let captured = black_box(11);
    assert_eq!(apply(|n| leaf(n) + captured, 2), 55);
    let boxed: Box<dyn Fn(i64) -> i64> = Box::new(move |n| n + captured);
    assert_eq!(apply(&boxed, 1), 37);
    let shapes: [Box<dyn Shape>; 2] = [Box::new(Square(2)), Box::new(Strip(1, 5))];
    assert_eq!(shapes.iter().map(|shape| shape.area()).sum::<i64>(), 34);
    println!("{} {}", shown(&[1.5, 22.25]), shown(&["a", "b"]));
    let mut counts = BTreeMap::new();
    for word in "one two one three".split(' ') {
        *counts.entry(word.to_string()).or_insert(0) += leaf(0);
    }
    assert_eq!(counts["one"], 2);
    let mut numbers: Vec<i64> = (0..40).map(|n| n * 7919 % 41).collect();
    numbers.sort_by_key(|n| leaf(*n));
    assert!(numbers.is_sorted());
}
